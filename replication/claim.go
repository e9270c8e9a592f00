package replication

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
)

// claim makes sure that the directory of r is there and r's own. Whatever else has its name is put
// aside.
func (n *node) claim(r *replica) error {
	if n.metadata.topicOf(r.tp, r.id) == nil {
		return unknownPartition(r.tp.Topic, r.tp.Partition)
	}
	name := partitionDir(r.tp)
	id, ok, err := readTopicID(n.fs, filepath.Join(n.root, name))
	switch {
	case err != nil:
		return err
	case ok && id == r.id:
		return nil
	case ok && n.metadata.wasRemoved(id):
		err = discard(n.fs, n.root, name)
	default:
		err = n.stray(name)
	}
	if err != nil {
		return err
	}
	return createPartitionDir(n.fs, n.root, r.tp, r.id)
}

// stray puts a directory aside that belongs to no topic; none is no error.
func (n *node) stray(name string) error {
	to, err := putAside(n.fs, n.root, name, straySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		n.logger.Warn("directory belongs to no topic, put aside", slog.String("directory", name), slog.String("as", filepath.Base(to)))
	}
	return err
}
