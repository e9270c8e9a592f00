package metalog

import (
	"errors"
	"io/fs"
	"maps"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/vfs"
)

// ReadNewest returns the image of the newest copy in places, and the epoch of its last batch, -1 if
// it has none. It acquires no lock, does not take over, and changes nothing. It does not check
// whether the copies are enough for a controller. Copies that cannot be read are left out; the
// image is nil if there is no other one.
func ReadNewest(places map[int32]Place) (img *image.Image, epoch int32, err error) {
	copies := map[int32]*Copy{}
	defer func() {
		for _, c := range copies {
			err = errors.Join(err, c.Close())
		}
	}()
	for id, p := range places {
		p.FS = vfs.ReadOnly(p.FS)
		l, err := log.OpenReadOnly(p.Dir(), p.config())
		if errors.Is(err, fs.ErrNotExist) || ReasonOf(err) != nil || errors.Is(err, log.ErrJournaled) {
			continue
		}
		if err != nil {
			return nil, -1, err
		}
		copies[id] = &Copy{Log: l, place: p, kept: -1}
	}
	left := maps.Clone(copies)
	for len(left) > 0 {
		var ends []controller.Copy
		for id, c := range left {
			ends = append(ends, c.state(id))
		}
		newest := controller.Newest(ends)
		if img, err := left[newest.Broker].Image(); err == nil {
			return img, newest.Epoch, nil
		}
		delete(left, newest.Broker)
	}
	return nil, -1, nil
}
