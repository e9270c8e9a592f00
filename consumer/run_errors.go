package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrAttemptTimeout is the cause of a handler's context that ended after
	// RunConfig.AttemptTimeout.
	ErrAttemptTimeout = errors.New("consumer: attempt timed out")
	// ErrDrainTimeout is the cause of a handler's context that ended because Run did, and the error
	// of a Run that returned while handlers ignored that.
	ErrDrainTimeout = errors.New("consumer: drain timeout is over, handlers still run")
	// ErrHandlerExit is the error of a record whose handler, or DeadLetter, ended its goroutine
	// with runtime.Goexit.
	ErrHandlerExit = errors.New("consumer: handler called runtime.Goexit")
)

// A HandlerPanicError is the error of a record whose handler panicked.
type HandlerPanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine, as debug.Stack has it
}

func (e *HandlerPanicError) Error() string {
	return fmt.Sprintf("consumer: handler panicked: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *HandlerPanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A BatchError is a BatchHandler's answer when only a prefix of its records is processed.
type BatchError struct {
	// Done says that the first Done records are processed, the next one failed. Out of range counts
	// as the nearest.
	Done int
	Err  error // of that record
}

func (e *BatchError) Error() string { return fmt.Sprintf("after %d records: %v", e.Done, e.Err) }

func (e *BatchError) Unwrap() error { return e.Err }

// Permanent wraps an error of a handler that another attempt would not mend: the record is not
// tried again, it goes to DeadLetter at once. errors.Is and errors.As see err. Permanent(nil) is
// nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }

func (e *permanentError) Unwrap() error { return e.err }

func isPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// Attempt returns the number of the call of a handler for its record, from 1 on, when ctx is the
// handler's. Calls before the record went through retry topics count. After a restart, or when the
// partition came from another member, those since the last retry topic do not. In DeadLetter it is
// the number of the last call. For other contexts it is 0.
func Attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}

type attemptKey struct{}

// attemptContext carries the number of an attempt.
type attemptContext struct {
	context.Context
	attempt int
}

func (c attemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	return c.Context.Value(key)
}

// withAttemptTimeout bounds ctx by d; 0: not at all.
func withAttemptTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, ErrAttemptTimeout)
}
