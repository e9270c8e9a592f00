package replication

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
)

// claim makes sure that the directory of r is there and r's own. Whatever else has its name is put
// aside.
func (b *broker) claim(r *replica) error {
	a, ok := b.lookup(r.tp, r.id)
	if !ok {
		return unknownPartition(r.tp.Topic, r.tp.Partition)
	}
	name := partitionDir(r.tp)
	id, ok, err := readTopicID(b.fs, filepath.Join(b.root, name))
	switch {
	case err != nil:
		return err
	case ok && id == r.id:
		return nil
	case ok && a.removed(id):
		err = discard(b.fs, b.root, name)
	default:
		err = b.stray(name)
	}
	if err != nil {
		return err
	}
	return createPartitionDir(b.fs, b.root, r.tp, r.id)
}

// stray puts a directory aside that belongs to no topic; none is no error.
func (b *broker) stray(name string) error {
	to, err := putAside(b.fs, b.root, name, straySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		b.logger.Warn("directory belongs to no topic, put aside", slog.String("directory", name), slog.String("as", filepath.Base(to)))
	}
	return err
}
