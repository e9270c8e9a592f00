package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// followWait bounds one fetch of Follow. The value is not critical: records, new partitions and the
// end of the context all end the wait.
const followWait = time.Hour

// follow fetches and yields records until the caller stops (false) or an error occurs.
func (r *reader) follow(ctx context.Context, yield func(record.Record, error) bool) (more bool, err error) {
	w := r.watch(ctx)
	defer w.stop()
	for {
		wait, changed, err := w.begin(r.version)
		if err != nil {
			return true, fmt.Errorf("consumer: follow %s: %w", r.cfg.Topic, err)
		}
		if changed {
			if err := r.grow(ctx); err != nil {
				return true, err
			}
			continue
		}
		err = r.fetchOrWait(wait)
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		if w.interrupted() && (err == nil || errors.Is(err, context.Canceled)) {
			err = nil // fetched records are yielded first; then the topic is checked
		}
		if err == nil && !r.hand(ctx, yield, &err) {
			return false, nil
		}
		if err != nil {
			return true, err
		}
	}
}

// fetchOrWait is a fetch that waits for records. If all selected partitions were removed from
// parts, there is nothing to fetch, and it only waits for the end of wait.
func (r *reader) fetchOrWait(wait context.Context) error {
	if len(r.parts) == 0 {
		<-wait.Done()
		return nil
	}
	return r.fetch(wait, 1)
}

// grow adds partitions that the topic got since the last check.
func (r *reader) grow(ctx context.Context) error {
	md, version, err := r.again(ctx)
	if err != nil {
		return err
	}
	var added []*readPart
	for p := r.known; p < len(md.Partitions) && r.cfg.Partitions == nil; p++ {
		added = append(added, newReadPart(record.TopicPartition{Topic: r.cfg.Topic, Partition: int32(p)}, 0, 0))
	}
	if len(added) > 0 {
		if err := r.place(ctx, added, partition.Earliest); err != nil {
			return err
		}
	}
	r.version, r.known, r.parts = version, len(md.Partitions), append(r.parts, added...)
	return r.sameTopic(ctx)
}

// A watch ends the waits of Follow when the cluster's metadata change. It has one goroutine.
type watch struct {
	ctx  context.Context // of the iteration
	end  context.CancelFunc
	done chan struct{}

	mu      sync.Mutex         // guards the fields below; never held while waiting
	version int64              // newest that is known
	cancel  context.CancelFunc // of the active wait; nil: there is none
	hit     bool               // the active wait was cancelled by a change or an error
	err     error              // nothing is watched any more
}

// watch starts the goroutine; the caller must call stop.
func (r *reader) watch(ctx context.Context) *watch {
	w := &watch{done: make(chan struct{}), version: r.version}
	w.ctx, w.end = context.WithCancel(ctx)
	version := r.version // the goroutine must not access r
	go func() {
		defer close(w.done)
		for {
			v := version
			err := retry(w.ctx, func() (err error) {
				v, err = r.b.WaitMetadata(w.ctx, version)
				return err
			})
			version = v
			w.mu.Lock()
			if err == nil {
				w.version = v
			}
			// the context ended, or added partitions could not be noticed any more
			w.err = err
			if w.cancel != nil {
				w.hit = true
				w.cancel()
			}
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

// begin returns a context for one wait. changed reports whether the metadata are newer than seen.
func (w *watch) begin(seen int64) (wait context.Context, changed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version > seen || w.err != nil {
		return nil, w.err == nil, w.err
	}
	if w.cancel != nil {
		w.cancel()
	}
	w.hit = false
	wait, w.cancel = context.WithCancel(w.ctx)
	return wait, false, nil
}

func (w *watch) interrupted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hit
}

// stop ends the goroutine and waits for it.
func (w *watch) stop() {
	w.end()
	<-w.done
}
