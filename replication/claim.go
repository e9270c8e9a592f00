package replication

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/stratalog/strata/log"
)

// claim makes sure that the directory of r exists and is r's own. A directory of another partition
// with its name is set aside, and so is the rest of a replica that has lost its records. synced
// means that the file with the topic's id was created with its bytes on stable storage, because the
// first record waits for the disk in any case.
func (n *node) claim(r *replica, a assignment) (synced bool, err error) {
	name := partitionDir(r.tp)
	f, err := readPartitionFile(n.fs, filepath.Join(n.root, name))
	switch {
	case err != nil:
		return false, err
	case r.loss() != nil:
		n.forgetBegun(r.place())
		err = n.stray(name)
	case f.named && f.id == r.id && f.isOf(r.tp.Partition):
		return false, nil
	case n.hasBegun(r): // its log was made, and it is not here any more
		return false, n.named(n.errMissing(r.place(), r.tp))
	case f.named && n.metadata.wasRemoved(f.id):
		err = discard(n.fs, n.root, name)
	default:
		err = n.stray(name)
	}
	if err != nil {
		return false, err
	}
	synced = a.settings.SyncPolicy() == log.SyncOnAck
	err = createPartitionDir(n.fs, n.root, newPartition{r.tp, r.id, synced})
	if err == nil {
		r.setLoss(nil)
	}
	return synced, err
}

// stray sets a directory aside that belongs to no topic, or was replaced; a missing one is no
// error.
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
