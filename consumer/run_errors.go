package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrAttemptTimeout is the cause of a handler's context that was cancelled after
	// RunConfig.AttemptTimeout.
	ErrAttemptTimeout = errors.New("consumer: attempt timed out")
	// ErrDrainTimeout is the cause of a handler's context that was cancelled because Run ended. It
	// is also the error of a Run that returned while handlers were still active.
	ErrDrainTimeout = errors.New("consumer: drain timeout passed, handlers still run")
	// ErrHandlerExit is the error of a record whose handler or DeadLetter called runtime.Goexit.
	ErrHandlerExit = errors.New("consumer: handler called runtime.Goexit")
)

// A HandlerPanicError is the error of a record whose handler panicked.
type HandlerPanicError struct {
	Value any    // the argument of panic
	Stack []byte // the goroutine's stack, as from debug.Stack
}

func (e *HandlerPanicError) Error() string {
	return fmt.Sprintf("consumer: handler panicked: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *HandlerPanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A BatchError is returned by a BatchHandler that processed only a prefix of its records.
type BatchError struct {
	// Done is the number of records processed; the record after them failed. Values out of range
	// count as the nearest valid one.
	Done int
	Err  error // the error of that record
}

func (e *BatchError) Error() string { return fmt.Sprintf("after %d records: %v", e.Done, e.Err) }

func (e *BatchError) Unwrap() error { return e.Err }

// Permanent wraps a handler's error that a retry cannot fix: the record goes to DeadLetter without
// another attempt. errors.Is and errors.As see err. Permanent(nil) is nil.
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

// Attempt returns the number of the handler call for a record, from 1, if ctx is the handler's.
// Calls before the record went through retry topics are included. After a restart, or when the
// partition came from another member, earlier calls since the last retry topic are not. In
// DeadLetter it returns the number of the last call. For other contexts it is 0.
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

// withAttemptTimeout bounds ctx by d; 0 means no bound.
func withAttemptTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, ErrAttemptTimeout)
}
