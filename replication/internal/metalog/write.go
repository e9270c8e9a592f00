package metalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/silence"
)

// The result of an append to one copy.
type heard struct {
	broker int32
	a      *log.Append
}

// writeTo writes a batch to copies at the same time. It returns the version after the batch, 0 if
// no copy has it, and why copies failed. A copy that does not respond has failed if the others are
// enough.
func (m *Log) writeTo(copies map[int32]*Copy, batch []byte, end int64) (version int64, failed map[int32]error) {
	answers := make(chan heard, len(copies))
	for id, l := range copies {
		l.Submit(&log.Append{Batch: batch, LeaderEpoch: -1, Done: func(a *log.Append) { answers <- heard{id, a} }})
	}
	failed = map[int32]error{}
	waiting := maps.Clone(copies)
	quiet := silence.New(m.cfg.Patience)
	defer quiet.Stop()
	if m.needNot(waiting, failed) {
		quiet.Begin()
	}
	for len(waiting) > 0 {
		select {
		case h := <-answers:
			delete(waiting, h.broker)
			if err := misplaced(h.a, end); err != nil {
				failed[h.broker] = fmt.Errorf("write metadata on broker %d: %w", h.broker, err)
			} else {
				version = h.a.LastOffset + 1
			}
			if m.needNot(waiting, failed) {
				quiet.Begin()
			}
		case <-quiet.C:
			if !quiet.Over() {
				continue
			}
			for id := range waiting {
				failed[id] = fmt.Errorf("write metadata on broker %d: %w", id, ErrSilent)
			}
			clear(waiting)
			m.builder = record.Builder{} // the silent copies may still read the batch
		}
	}
	return version, failed
}

// misplaced returns an error if a batch was not appended at offset end.
func misplaced(a *log.Append, end int64) error {
	if a.Err == nil && a.BaseOffset != end {
		return fmt.Errorf("it has offset %d instead of %d", a.BaseOffset, end)
	}
	return a.Err
}

// needNot reports whether the copies that have written a batch can continue without the waiting
// ones.
func (m *Log) needNot(waiting map[int32]*Copy, failed map[int32]error) bool {
	written := slices.DeleteFunc(m.without(failed), func(id int32) bool { return waiting[id] != nil })
	return controller.MayBecome(written, m.sets...)
}
