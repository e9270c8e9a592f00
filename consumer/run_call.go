package consumer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// call calls the handler for the jobs of w. It returns the number of completed jobs, and the error
// of the next one.
func (r *runner) call(w *worker) (done int, err error) {
	first := &w.jobs[0]
	ctx, cancel := withAttemptTimeout(attemptContext{first.t.ctx, first.calls() + 1}, r.cfg.AttemptTimeout)
	defer cancel()
	defer recoverTo(&err)
	if r.handle != nil {
		err = r.handle(ctx, first.rec)
	} else {
		err = r.handleBatch(ctx, recordsOf(w.jobs))
	}
	if err == nil {
		return len(w.jobs), nil
	}
	var partial *BatchError
	if len(w.jobs) > 1 && errors.As(err, &partial) {
		done = min(max(partial.Done, 0), len(w.jobs))
		if done == len(w.jobs) {
			r.c.cfg.Logger.Warn("batch handler returned an error, but says that all records are done", "err", err)
			return done, nil
		}
	}
	return done, err
}

// recordsOf returns the records of jobs, in a slice that the handler may keep.
func recordsOf(jobs []job) []record.Record {
	rs := make([]record.Record, len(jobs))
	for i := range jobs {
		rs[i] = jobs[i].rec
	}
	return rs
}

// calls returns the number of failed calls with the job.
func (j *job) calls() int {
	n := j.before + j.tries
	if j.alone {
		n++ // the call with others
	}
	return n
}

// recoverTo turns a panic into an error.
func recoverTo(err *error) {
	if v := recover(); v != nil {
		*err = &HandlerPanicError{v, debug.Stack()}
	}
}

// conclude applies the result of a call to its jobs, of which the first ones are done. If the call
// had several jobs and the error does not name one, none of them has failed: each is called alone,
// immediately.
func (r *runner) conclude(w *worker, done int, err error) {
	if err == nil {
		r.finish(w, w.jobs, nil, nil)
		return
	}
	var fatal error
	var partial *BatchError
	j := &w.jobs[done]
	switch {
	case r.leaves(j.t): // not done: the next reader gets it
	case len(w.jobs) > 1 && !errors.As(err, &partial):
		for i := range w.jobs {
			w.jobs[i].alone = true
		}
	default:
		j.tries++
		if !isPermanent(err) && j.tries <= r.cfg.Retries {
			j.due = time.Now().Add(r.backoff(j.tries))
		} else if fatal = r.giveUp(w, j, err); fatal == nil {
			done++
		}
	}
	r.finish(w, w.jobs[:done], w.jobs[done:], fatal)
}

// leaves reports whether t is being revoked, its position was sought, or Run ends. A failure then
// does not count, and there is no retry. The first code that notices the end of Run's context ends
// Run: a record put back earlier would be handed out again immediately.
func (r *runner) leaves(t *track) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		r.endLocked()
	}
	return t.drops()
}

// backoff returns the wait after the given number of failures, between half of it and all.
func (r *runner) backoff(failures int) time.Duration {
	d := r.cfg.MinBackoff
	for ; failures > 1 && d < r.cfg.MaxBackoff; failures-- {
		d *= 2
	}
	d = min(d, r.cfg.MaxBackoff)
	return d/2 + rand.N(d/2+1)
}

// giveUp hands a record without further retries here to a retry topic or the dead letter function.
// nil: it counts as done.
func (r *runner) giveUp(w *worker, j *job, cause error) error {
	r.mu.Lock()
	w.began = time.Now() // MaxPollInterval is per call
	r.mu.Unlock()
	ctx := attemptContext{j.t.ctx, j.calls()}
	failed := func(errs ...error) error {
		return &PartitionError{j.t.p.tp, j.rec.Offset, fmt.Errorf("handler: %w", errors.Join(errs...))}
	}
	err := failed(cause)
	if stage := r.cfg.RetryTopics.stage(j); stage != nil && !isPermanent(cause) {
		sent := r.apart(func() error { return r.cfg.RetryTopics.send(ctx, stage, j, cause) })
		if !errors.Is(sent, producer.ErrMessageTooLarge) {
			if sent != nil {
				return failed(cause, fmt.Errorf("retry topic: %w", sent))
			}
			return nil
		}
		err = failed(cause, fmt.Errorf("retry topic: %w", sent))
	}
	if r.cfg.DeadLetter == nil {
		return err
	}
	if dead := r.apart(func() error { return r.cfg.DeadLetter(ctx, j.rec, err) }); dead != nil {
		return errors.Join(err, fmt.Errorf("consumer: dead letter: %w", dead))
	}
	return nil
}

// apart calls functions of the application other than the handler: DeadLetter and, with a retry
// topic, the producer's partitioner. It uses a separate goroutine, so that runtime.Goexit becomes
// an error like a panic, and the worker continues with the outcome.
func (r *runner) apart(fn func() error) error {
	err := ErrHandlerExit // result if fn does not return
	done := make(chan struct{})
	go func() { // ends before the worker, which waits here
		defer close(done)
		defer r.c.beHelper()() // Close in fn does not wait for it
		defer recoverTo(&err)
		err = fn()
	}()
	<-done
	return err
}
