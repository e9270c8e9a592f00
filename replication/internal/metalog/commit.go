package metalog

import (
	"errors"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
)

// A Fencing is the committed change that removes brokers whose copy of the metadata failed.
type Fencing struct {
	Brokers []int32
	Change
	causes map[int32]error // why, by broker
}

// Commit makes a change, decided on img, durable on all copies of the metadata and returns its
// version. Copies that fail are removed from the set, with a change that is committed on the
// others; that commits the first change too. If too many copies fail, the change is undone and has
// not happened. If undoing it fails as well, nothing can be changed before Reopen.
//
// A change that is larger than a batch is a transaction of several batches. If copies fail during
// it, the others get the rest of it, and the change after its end makes the set smaller.
func (m *Log) Commit(img *image.Image, recs []metarecord.Record) (version int64, out *Fencing, err error) {
	if m.failure != nil {
		return 0, nil, m.failure
	}
	rest, err := m.split(recs, "change")
	if err != nil {
		return 0, nil, err
	}
	end, size := m.Own().EndOffset(), m.size
	named := m.named(setAfter(m.sets.Last(), recs))
	version, failed, err := m.appendNext(&rest)
	switch {
	case err == nil && len(failed) == 0:
		m.committed(!changesSet(recs) || m.sealed && controller.Same(m.sets.Last(), m.without(nil)))
		return version, nil, nil
	case err == nil && controller.MayBecome(m.without(failed), named...):
		last, out, err := m.takeOut(img, failed, named, unapplied{recs, rest})
		if err != nil {
			return 0, nil, err
		}
		return max(version, last), out, nil
	}
	cause := errors.Join(append(byid.Values(failed), err)...)
	m.size = size
	if stuck := m.takeBack(end); len(stuck) > 0 {
		return 0, nil, errors.Join(cause, m.fail(errors.Join(byid.Values(stuck)...)))
	}
	if broken := m.broken(); !controller.MayBecome(m.without(broken), m.sets...) {
		_ = m.fail(cause) // no change is made with these copies in their present state
	}
	return 0, nil, cause
}

// An unapplied change is one in which copies failed, and which the image does not contain yet.
type unapplied struct {
	recs []metarecord.Record
	rest [][]metarecord.Record // its parts that are not written yet
}

// takeOut removes brokers from the set, with a change that is committed on the copies of the
// others. Copies that fail in that change are removed, too, and added to failed. named are the
// sets that a copy may name. version is the version after the rest of the change in progress, 0 if
// there was no rest.
func (m *Log) takeOut(img *image.Image, failed map[int32]error, named [][]int32, under unapplied) (version int64, out *Fencing, err error) {
	out = &Fencing{causes: map[int32]error{}}
	for len(failed) > 0 {
		if !controller.MayBecome(m.without(failed), named...) {
			maps.Copy(out.causes, failed)
			return 0, nil, m.fail(out.cause())
		}
		err := m.drop(failed, named)
		maps.Copy(out.causes, failed)
		if err != nil {
			return 0, nil, m.fail(errors.Join(out.cause(), err))
		}
		named = append(named, m.without(nil))
		out.Brokers = append(out.Brokers, slices.Sorted(maps.Keys(failed))...)
		m.cfg.Elected()
		m.joining = 0
		if len(under.rest) > 0 {
			if version, failed, err = m.appendNext(&under.rest); err != nil {
				return 0, nil, m.fail(err) // half a change, which the next controller undoes
			}
			if len(failed) > 0 {
				continue
			}
		}
		out.Records = img.Fence(out.Brokers, under.recs)
		if out.Version, failed, err = m.append(out.Records); err != nil {
			return 0, nil, err
		}
	}
	m.committed(false)
	maps.Copy(m.causes, out.causes)
	for id, cause := range byid.Range(out.causes) {
		m.cfg.Fenced(id, cause)
	}
	return version, out, nil
}

// cause returns why the brokers were removed.
func (f *Fencing) cause() error { return errors.Join(byid.Values(f.causes)...) }

// takeOutStuck removes brokers from the set whose copies still have batches that the others have
// truncated. Later batches of the others must be in another epoch: otherwise the copies could not
// be distinguished.
func (m *Log) takeOutStuck(img *image.Image, stuck map[int32]error) (out *Fencing, err error) {
	cause := errors.Join(byid.Values(stuck)...)
	named := m.named()
	if !controller.MayBecome(m.without(stuck), named...) {
		return nil, m.fail(cause)
	}
	m.detach(stuck)
	if err := m.elect(stuck, named); err != nil {
		return nil, m.fail(errors.Join(cause, err))
	}
	_, out, err = m.takeOut(img, stuck, named, unapplied{})
	return out, err
}

// TakeOut removes brokers from the set when no change is in progress. img is the current state.
func (m *Log) TakeOut(img *image.Image, failed map[int32]error) (*Fencing, error) {
	_, out, err := m.takeOut(img, failed, m.named(), unapplied{})
	return out, err
}

// HandOver makes another broker the controller if broker is the controller and its copy is in the
// set. The new one is to, if its copy is in the set, else the lowest of the others. Before the
// controller leaves, HandOver detects copies of the others that cannot begin an epoch, while the
// present controller can still continue. It returns those, which must be removed from the set.
func (m *Log) HandOver(broker, to int32) (failed map[int32]error, err error) {
	others := slices.DeleteFunc(m.Set(), func(id int32) bool { return id == broker })
	if m.leader != broker || len(others) == 0 || m.failure != nil {
		return nil, m.failure
	}
	if m.leader = slices.Min(others); slices.Contains(others, to) {
		m.leader = to
	}
	failed = map[int32]error{}
	if err := m.elect(failed, m.named()); err != nil {
		return nil, m.fail(err)
	}
	m.cfg.Elected()
	return failed, nil
}
