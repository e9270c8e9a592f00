package replication

import (
	"fmt"

	"github.com/stratalog/strata/internal/alarm"
)

// ended returns the error of calls since the node ends; nil: it serves.
func (n *node) ended() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closed
}

// end makes every new call fail with reason, and no new goroutine begin.
func (n *node) end(reason error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed == nil {
		n.closed = reason
		close(n.closing)
	}
}

// resign makes the node reject all calls with ErrNotLeader, and wakes waiting readers. Work in
// progress continues.
func (n *node) resign() {
	n.end(n.absent())
	for _, r := range n.all() {
		if p := r.dismiss(n.absent()); p != nil {
			p.Resign()
		}
	}
}

// cut ends the node as a killed process ends: appends that are not acknowledged yet never are, and
// nothing that it does reaches the disk any more.
func (n *node) cut() {
	n.resign()
	for _, r := range n.all() {
		if p := r.readable.Load(); p != nil {
			p.BecomeFollower()
		}
	}
	n.session.End()
}

func (n *node) absent() error {
	return fmt.Errorf("%w: broker %d is not there any more", ErrNotLeader, n.id)
}

// close ends everything that runs and closes the partitions. Calls fail with ErrClosed, unless the
// node has resigned.
func (n *node) close() error {
	n.end(ErrClosed)
	reason := n.ended()
	err := forEach(n.all(), func(_ int, r *replica) error {
		if p := r.retire(reason); p != nil {
			err := p.Close()
			r.inOrder.Store(err == nil)
			return err
		}
		return nil
	})
	n.wg.Wait()
	for _, a := range []*alarm.Alarm{&n.lag, &n.unsettled, &n.asks.again, &n.evidence.alarm} {
		a.Stop()
		a.Wait()
	}
	n.leaveEvidence()
	n.deletions.close()
	return err
}
