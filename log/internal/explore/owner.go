package explore

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// An owner has snapshots written. Each names the last record below the snapshot's offset.
type owner struct {
	mu sync.Mutex // guards the field below

	wrote []placed // ascending
}

type placed struct{ offset, id int64 }

func (o *owner) Admit(*log.Append) error      { return nil }
func (o *owner) Refused([]*log.Append, error) {}
func (o *owner) Durable(int64)                {}

// Written implements log.Owner.
func (o *owner) Written(as []*log.Append) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range as {
		b, _, err := record.Parse(a.Batch)
		if err != nil {
			continue // the reader reports it
		}
		id := int64(-1)
		for r := range b.All() {
			if one, err := recOf(&r); err == nil {
				id = one.id
			}
		}
		o.cutLocked(a.BaseOffset)
		o.wrote = append(o.wrote, placed{a.LastOffset, id})
	}
}

func (o *owner) cutLocked(from int64) {
	o.wrote = slices.DeleteFunc(o.wrote, func(p placed) bool { return p.offset >= from })
}

// begin makes o the owner of a log that holds the records of f.
func (o *owner) begin(f *found) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrote = nil
	for i, r := range f.recs {
		o.wrote = append(o.wrote, placed{f.offsets[i], r.id})
	}
}

// Snapshot implements log.Snapshotter.
func (o *owner) Snapshot(offset int64) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := placed{-1, -1}
	for _, p := range o.wrote {
		if p.offset < offset {
			last = p
		}
	}
	return snapshotOf(offset, last)
}

func snapshotOf(offset int64, last placed) []byte {
	return fmt.Appendf(nil, "at %d, last %d %d %s", offset, last.offset, last.id, bytes.Repeat([]byte{'.'}, int(mix(offset)%200)))
}

// checkSnapshots checks that each snapshot is complete, lies within the log, and names the record
// that the log has at that offset, if it still has one.
func checkSnapshots(l *log.Log, f *found) error {
	offsets, err := l.SnapshotFiles()
	if err != nil {
		return err
	}
	for _, o := range offsets {
		p, err := l.ReadSnapshot(o)
		if err != nil {
			return err
		}
		var at int64
		var last placed
		_, _ = fmt.Sscanf(string(p), "at %d, last %d %d", &at, &last.offset, &last.id)
		switch i, ok := slices.BinarySearch(f.offsets, last.offset); {
		case !bytes.Equal(p, snapshotOf(o, last)):
			return fmt.Errorf("snapshot of %d is %.60q", o, p)
		case o > f.end:
			return fmt.Errorf("snapshot of %d in a log that ends at %d", o, f.end)
		case ok && f.recs[i].id != last.id:
			return fmt.Errorf("snapshot of %d knows record %d at %d, where %d is", o, last.id, last.offset, f.recs[i].id)
		}
	}
	return nil
}
