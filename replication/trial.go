package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// trials has the tests of a broker's disk. One test runs at a time.
type trials struct {
	comparing atomic.Bool // compareDisks is running
	mu        sync.Mutex
	latest    *trial // nil before the first test
}

// trial is one test of a disk.
type trial struct {
	over  chan struct{} // closed when the test has ended
	err   error         // set before over is closed, as ended is
	ended time.Time
}

// trialAge is the time for which the result of a test is used again, for tests that clients cause.
const trialAge = time.Second

// TryDisk writes 64 KiB to a broker's directory, syncs and reads them, and removes the file. It
// returns the error of the file system, such as ENOSPC; ErrBrokerDown if the broker does not run,
// with the cause if Open has left it out; the cause of ctx if the disk does not answer before ctx
// ends. Concurrent calls share one test, and a result stands for a second. It is safe for
// concurrent use.
func (c *Cluster) TryDisk(ctx context.Context, broker int32) error {
	n := c.serving()[broker]
	if n == nil {
		return c.whyDown(broker)
	}
	return n.diskError(ctx, trialAge)
}

// whyDown returns ErrBrokerDown, with the cause if Open has left the broker out.
func (c *Cluster) whyDown(id int32) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if b := c.brokers[id]; b != nil && b.failed != nil {
		return fmt.Errorf("%w: %w", ErrBrokerDown, b.failed)
	}
	return ErrBrokerDown
}

// diskError returns the result of a test of the disk that is at most maxAge old.
func (n *node) diskError(ctx context.Context, maxAge time.Duration) error {
	t, err := n.startTrial(maxAge)
	if err != nil {
		return err
	}
	select {
	case <-t.over:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("%s does not answer: %w", n.root, context.Cause(ctx))
	}
}

// startTrial returns the test that is running or ended at most maxAge ago, or a new one.
func (n *node) startTrial(maxAge time.Duration) (*trial, error) {
	n.trials.mu.Lock()
	defer n.trials.mu.Unlock()
	if t := n.trials.latest; t != nil {
		select {
		case <-t.over:
			if time.Since(t.ended) < maxAge {
				return t, nil
			}
		default:
			return t, nil
		}
	}
	t := &trial{over: make(chan struct{})}
	started := n.metadata.c.run(func() {
		t.err = n.tryDisk()
		t.ended = time.Now()
		close(t.over)
	})
	if !started {
		return nil, ErrClosed
	}
	n.trials.latest = t
	return t, nil
}

// compareDisks fences the broker if the disk of another broker that could lead works. If no disk
// works, as when all brokers share a full one, no broker is fenced. Disks may hang, so compareDisks
// returns at once.
func (n *node) compareDisks(r *replica, cause error) {
	if !n.trials.comparing.CompareAndSwap(false, true) {
		return
	}
	c := n.metadata.c
	started := c.run(func() {
		defer n.trials.comparing.Store(false)
		serving := c.serving()
		for _, id := range n.mayLead(r) {
			if other := serving[id]; other != nil && other.diskError(context.Background(), 0) == nil {
				c.fence(n.id, fmt.Errorf("%w: %w", errStruggles, cause))
				return
			}
		}
	})
	if !started {
		n.trials.comparing.Store(false)
	}
}

const (
	// trialFile is in a broker's directory while its disk is tried.
	trialFile = "strata.trial.tmp"
	// trialBytes is how much is written to it.
	trialBytes = 64 << 10
)

// tryDisk writes a file, reads it and removes it.
func (n *node) tryDisk() (err error) {
	name := filepath.Join(n.root, trialFile)
	f, err := n.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), n.fs.Remove(name)) }()
	wrote := bytes.Repeat([]byte{0xa5}, trialBytes)
	if _, err := f.WriteAt(wrote, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	read := make([]byte, trialBytes)
	if _, err := f.ReadAt(read, 0); err != nil && err != io.EOF {
		return err
	}
	if !bytes.Equal(read, wrote) {
		return fmt.Errorf("%s: other bytes were read than were written", name)
	}
	return nil
}
