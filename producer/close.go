package producer

import (
	"context"
	"time"
)

// closeTimeout bounds Close.
const closeTimeout = 30 * time.Second

// Close is Shutdown with a timeout of 30 seconds.
func (p *Producer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.Shutdown(ctx)
}

// Shutdown closes the producer. It sends all buffered records, and returns when their outcomes are
// known and the producer's goroutines have ended. New records are rejected with ErrClosed,
// including records whose callers are waiting for memory or metadata. If ctx ends first, the
// remaining records fail with ErrClosed and may or may not be in the log; ctx's error is returned.
// Every callback has returned when Shutdown returns: ctx bounds the wait for the backend, not the
// wait for an active callback.
//
// An open transaction is aborted. If the transaction is being committed or aborted, Shutdown waits
// for it; if ctx ends first, the error matches ErrOutcomeUnknown.
//
// Shutdown is idempotent: later calls return the result of the first, or ctx's error if that ends
// earlier. It must not be called from a callback of SendAsync.
func (p *Producer) Shutdown(ctx context.Context) error {
	if !p.closing.CompareAndSwap(false, true) {
		select {
		case <-p.closed:
			return p.closeErr
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.refuse()
	p.memory.close()
	p.sealTopics()
	if p.txn != nil {
		p.closeErr = p.txn.close(ctx)
	}
	if p.closeErr == nil {
		p.closeErr = p.Flush(ctx)
	}
	if p.closeErr != nil {
		p.eachPart(func(pt *partitionQueue) { pt.abort(ErrClosed) })
		// all records are settled: only callbacks are left, including those started by other
		// goroutines
		_ = p.Flush(context.Background())
	}
	p.endSpawning()
	p.stop()
	p.coarse.end()
	p.sender.end()
	p.wg.Wait()
	p.endSession()
	close(p.closed)
	return p.closeErr
}
