package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/topic"
)

// metaDir is the directory of a broker's copy of the metadata log.
func (n *node) metaDir() string { return filepath.Join(n.root, topic.MetadataTopic+"-0") }

// openCopy opens the broker's copy of the metadata log, creating it.
func (n *node) openCopy() (*log.Log, error) {
	cfg := n.base.Log
	cfg.Sync = log.SyncOnAck
	cfg.Cleanup = log.CleanupNone
	cfg.RetentionAge = log.Unlimited
	cfg.MaxBatchBytes = maxMetaBatchBytes
	l, err := log.Open(n.metaDir(), cfg)
	if err != nil {
		return nil, openError(n.metaDir(), err)
	}
	return l, nil
}

// openMetadata opens the copies that there are, finds the one to go by and applies it to the image.
// It is an error if so many are missing that another may know more; no copy has been changed then.
// asked are the brokers that the configuration asks for.
func (c *Cluster) openMetadata(asked []int32) error {
	c.meta = &metaLog{copies: map[int32]*log.Log{}, apart: map[int32]*log.Log{}, slack: c.cfg.metaSlack, part: c.cfg.metaPart}
	copies, err := c.openCopies()
	if err != nil {
		return err
	}
	newest := controller.Copy{Broker: slices.Min(slices.Collect(maps.Keys(c.nodes)))}
	if len(copies) > 0 {
		newest = controller.Newest(copies)
		if err := c.meta.replay(c.meta.apart[newest.Broker], c.nodes[newest.Broker].metaDir(), c.image); err != nil {
			return err
		}
	}
	c.meta.leader = newest.Broker
	set := c.image.serving()
	switch {
	case newest.End == 0: // a new cluster, perhaps one that was not completed
		set = asked
	case len(set) == 0: // written when there was one broker, and it was not registered
		set = []int32{newest.Broker}
	}
	c.meta.inForce = set
	switch {
	case newest.End == 0 && (len(copies) == 0 || len(c.nodes) == len(asked)):
		// All directories of a new cluster are made before the first copy.
	case newest.End > 0 && controller.Enough(set, slices.Collect(maps.Keys(c.meta.apart))):
	case c.cfg.AcceptMetadataLoss:
		c.epochStep = epochGap
		c.meta.inForce = slices.DeleteFunc(slices.Clone(set), func(id int32) bool { return c.meta.apart[id] == nil })
	default:
		return directoryError(c.cfg.Dir, ErrMissing,
			fmt.Errorf("the metadata is kept by brokers %v, and more than half of them are needed", set))
	}
	return nil
}

// openCopies opens the copies that there are.
func (c *Cluster) openCopies() (copies []controller.Copy, err error) {
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[id]
		if _, err := n.fs.Stat(n.metaDir()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		l, err := n.openCopy()
		if err != nil {
			return nil, err
		}
		c.meta.apart[id] = l
		epoch, _ := l.Epochs().Latest()
		copies = append(copies, controller.Copy{Broker: id, Epoch: epoch, End: l.EndOffset()})
	}
	return copies, nil
}

// epochGap is by how much the controller's epoch grows if not all can be known that were in use:
// what a missing copy has must not be in the same epochs as what comes now.
const epochGap = 1 << 10

// followNewest brings the copies of the set in force up to the newest, and begins the controller's
// epoch on all of them. Only then may it write. The others join one by one afterwards.
func (c *Cluster) followNewest() error {
	m := c.meta
	for _, n := range c.nodes {
		if m.apart[n.id] == nil {
			l, err := n.openCopy()
			if err != nil {
				return err
			}
			m.apart[n.id] = l
		}
	}
	newest := m.apart[m.leader]
	if newest.EndOffset() > m.end { // a transaction that did not end has done nothing
		if err := newest.TruncateTo(m.end); err != nil {
			return err
		}
	}
	for _, id := range m.inForce {
		if l := m.apart[id]; l != nil {
			m.copies[id] = l
			delete(m.apart, id)
		}
	}
	err := forEach(slices.Collect(maps.Keys(m.copies)), func(_ int, id int32) error {
		if m.copies[id] == newest {
			return nil
		}
		if err := follow(m.copies[id], newest); err != nil {
			return fmt.Errorf("copy metadata to broker %d: %w", id, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if m.copies[m.leader] == nil {
		m.leader = slices.Min(slices.Collect(maps.Keys(m.copies)))
	}
	return m.beginEpoch(c.epochStep)
}

// join makes a broker's copy one of the set. The change that says so is written to the copies of
// the set first: a new copy that names a larger set could be more than half of it together with
// others like it, and none of those that know what is committed.
func (c *Cluster) join(n *node) error {
	m := c.meta
	l := m.apart[n.id]
	if err := follow(l, m.own()); err != nil {
		return fmt.Errorf("copy metadata to broker %d: %w", n.id, err)
	}
	if err := l.SetLeaderEpoch(m.epoch()); err != nil {
		return fmt.Errorf("copy metadata to broker %d: %w", n.id, err)
	}
	m.joining = n.id
	err := c.perform(func(img *image) ([]metarecord.Record, error) { return img.register(n.arrival()), nil }, nil)
	m.joining = 0
	if err == nil && m.copies[n.id] == nil {
		err = fmt.Errorf("broker %d cannot keep the metadata", n.id)
	}
	return err
}

// follow makes a copy equal to the leader's: what they do not have in common is cut, what is
// missing is appended as it is.
func follow(l, leader *log.Log) error {
	// Also at the end: an epoch that began there, and that nothing was written in, is not the
	// leader's.
	if err := l.TruncateTo(controller.Part(leader.Epochs(), l.Epochs(), l.EndOffset())); err != nil {
		return err
	}
	if start := leader.StartOffset(); l.EndOffset() < start {
		if err := l.TruncateFully(start); err != nil {
			return err
		}
	}
	var buf []byte
	for next := l.EndOffset(); next < leader.EndOffset(); next = l.EndOffset() {
		var err error
		if buf, err = leader.Read(buf[:0], next, 1<<20); err != nil {
			return err
		}
		for rest := buf; len(rest) > 0; {
			_, n, err := record.Parse(rest)
			if err != nil {
				return err
			}
			if err := appendWhole(l, &log.Append{Batch: rest[:n:n], LeaderEpoch: -1, KeepOffsets: true}); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if l.EndOffset() == next {
			return fmt.Errorf("%w: nothing at offset %d", log.ErrCorrupt, next)
		}
	}
	return l.DeleteRecords(leader.StartOffset())
}

// appendWhole appends one batch and waits for it.
func appendWhole(l *log.Log, a *log.Append) error {
	done := make(chan struct{})
	a.Done = func(*log.Append) { close(done) }
	l.Submit(a)
	<-done
	return a.Err
}
