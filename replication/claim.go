package replication

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/stratalog/strata/log"
)

// claim makes sure that the directory of r is there and r's own. Whatever else has its name is put
// aside. synced says that the file which tells whose it is was made with its bytes on stable
// storage: where the first record waits for the disk in any case.
func (n *node) claim(r *replica, a assignment) (synced bool, err error) {
	name := partitionDir(r.tp)
	id, ok, err := readTopicID(n.fs, filepath.Join(n.root, name))
	switch {
	case err != nil:
		return false, err
	case ok && id == r.id:
		return false, nil
	case ok && n.metadata.wasRemoved(id):
		err = discard(n.fs, n.root, name)
	default:
		err = n.stray(name)
	}
	if err != nil {
		return false, err
	}
	synced = a.settings.SyncPolicy() == log.SyncOnAck
	return synced, createPartitionDir(n.fs, n.root, r.tp, topicIDOf{r.id, synced})
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
