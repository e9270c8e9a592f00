package journal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
)

// Due reports whether Checkpoint has something to do: a half is full and the journal is in use.
func (j *Journal[H]) Due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err == nil && (j.halves[0].full || j.halves[1].full)
}

// Drain empties the journal, except for frames that are appended meanwhile. Its errors are those of
// Checkpoint.
func (j *Journal[H]) Drain() error {
	j.mu.Lock()
	if h := &j.halves[j.active]; h.generation > 0 {
		h.full = true
	}
	j.mu.Unlock()
	return j.Checkpoint()
}

// Checkpoint frees the full halves: it waits until their holders have settled, and records that on
// stable storage. If a holder cannot settle, or the record cannot be written, the journal is out of
// use with that error, and keeps its frames.
func (j *Journal[H]) Checkpoint() error {
	for i := range j.halves {
		holders, err := j.full(i)
		if err != nil {
			return err
		}
		if holders == nil {
			continue
		}
		if err = j.settle(holders); err == nil {
			err = j.markFree(i)
		}
		if err != nil {
			return j.fail(fmt.Errorf("journal: checkpoint: %w", err))
		}
		j.mu.Lock()
		j.halves[i] = half[H]{holders: make(map[H]struct{})}
		j.mu.Unlock()
	}
	return nil
}

// full returns the holders of a full half, which gets no more; nil if it is not full.
func (j *Journal[H]) full(i int) ([]H, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || !j.halves[i].full {
		return nil, j.err
	}
	return append([]H{}, slices.Collect(maps.Keys(j.halves[i].holders))...), nil
}

// settle calls Settle for all holders, a few at once.
func (j *Journal[H]) settle(holders []H) error {
	var wg sync.WaitGroup
	errs := make([]error, min(j.cfg.Settlers, len(holders)))
	for i := range errs {
		wg.Go(func() {
			for k := i; k < len(holders) && errs[i] == nil; k += len(errs) {
				errs[i] = holders[k].Settle()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// markFree invalidates the entries of a half before any new ones are written there. First it
// clears the half's first byte, which marks it as free and which a crash cannot tear. Then it
// clears the rest of the sector, so that a frame torn there is not taken for one of the half's
// last use.
//
// It has a descriptor of its own: Linux reports a failed write once to each descriptor that is
// synced. A concurrent Sync of Append must not miss the failure of its own write because this Sync
// got the error.
func (j *Journal[H]) markFree(i int) error {
	f, err := j.cfg.FS.OpenFile(j.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, zeros := range [][]byte{make([]byte, 1), make([]byte, alignment)} {
		if err == nil {
			_, err = f.WriteAt(zeros, j.begin(i))
		}
		if err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}
