package replication

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/stratalog/strata/replication/internal/metalog"
)

// openWholeCopy opens the copy of a broker that starts. A damaged copy is set aside, and rebuilt
// from the controller's.
//
// The broker is in no set then that may be in force: the others have continued without it, so they
// have all committed changes. Other content of the old copy need not be kept. The new copy has the
// same earlier sets as the controller's copy, which is later. In epochs that began only on the old
// copy nothing was written: a controller writes when its epoch has begun on a majority, and the
// present controller had a majority without this copy, so it has seen that epoch.
func (n *node) openWholeCopy(leader *metalog.Copy) (*metalog.Copy, error) {
	place := n.copyPlace()
	l, err := place.Open()
	if err == nil {
		if _, err = l.Image(); err == nil {
			return l, nil
		}
		err = errors.Join(err, l.Close())
	}
	if !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	aside, failed := n.renewCopy(leader)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	n.logger.Error("damaged copy of the metadata was put aside, and made anew", slog.Int("broker", int(n.id)), slog.String("directory", aside), slog.Any("err", err))
	return place.Open()
}

// renewCopy sets the broker's copy aside, and replaces it with an equal copy of the leader's. The
// new copy gets its name only when it is complete and durable. An empty copy, or one with fewer of
// the sets in force than the old one, would count for a majority at the next open.
func (n *node) renewCopy(leader *metalog.Copy) (aside string, err error) {
	place := n.copyPlace()
	name := filepath.Base(place.Dir())
	staging := filepath.Join(n.root, asideName(name, deleteSuffix)) // deleted by the next start, if this one dies
	l, err := place.OpenIn(staging)
	if err != nil {
		return "", errors.Join(err, n.fs.RemoveAll(staging))
	}
	err = l.Follow(leader)
	if err == nil {
		epoch, _ := leader.Epochs().Latest()
		err = l.SetLeaderEpoch(epoch)
	}
	if err = errors.Join(err, l.Close()); err == nil {
		aside, err = putAside(n.fs, n.root, name, straySuffix)
	}
	if err == nil {
		err = n.fs.Rename(staging, place.Dir())
	}
	if err == nil {
		return aside, n.fs.SyncDir(n.root)
	}
	return "", errors.Join(err, n.fs.RemoveAll(staging))
}
