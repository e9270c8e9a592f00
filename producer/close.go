package producer

import (
	"context"
	"time"
)

// closeTimeout bounds Close.
const closeTimeout = 30 * time.Second

// Close is Shutdown with a bound of 30 seconds.
func (p *Producer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.Shutdown(ctx)
}

// Shutdown refuses new records with ErrClosed, also those whose callers are waiting to get them in,
// sends what is buffered, and returns when all of it is settled and the producer's goroutines have
// ended. If ctx ends first, the rest fails with ErrClosed and may or may not be in the log; ctx's
// error is returned. Every callback has run when it returns: ctx bounds the wait for the backend,
// not that for a callback at work. A transaction that is open is aborted, one that is being ended
// is waited for: if ctx ends first, the error matches ErrOutcomeUnknown. It is idempotent; later
// calls return the result of the first, or ctx's error if that ends before. Not to be called from a
// callback of SendAsync.
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
		// all is done: only callbacks, also those that other goroutines have begun, are left
		_ = p.Flush(context.Background())
	}
	p.endSpawning()
	p.stop()
	p.coarse.end()
	p.sender.end()
	p.wg.Wait()
	close(p.closed)
	return p.closeErr
}
