package partition

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// A new leader returns an end of the partition that is at least the end that an earlier leader has
// acknowledged, or an error. That also holds if followers fetch, or the leadership ends, at that
// moment.
func TestEndThatANewLeaderReportsIsNeverOlder(t *testing.T) {
	for meanwhile, end := range map[string]bool{"a follower fetches": false, "the leadership ends": true} {
		for _, isolation := range []Isolation{ReadUncommitted, ReadCommitted} {
			t.Run(fmt.Sprintf("%s, isolation %d", meanwhile, isolation), func(t *testing.T) {
				c := newReplicas(t, 2, Config{Topic: "t"}, 1)
				c.produce(batchSpec{value: "a", n: 5}, record.AcksLeader)
				c.settle()
				p := c.nodes[0].p
				acknowledged := p.HighWatermark()
				require.NoError(t, p.Close())
				c.open(c.nodes[0])
				c.lead()
				p = c.nodes[0].p
				require.Zero(t, p.HighWatermark())

				p.mu.Lock()
				changed, told := make(chan struct{}), make(chan error, 1)
				go func() {
					defer close(changed)
					if end {
						p.BecomeFollower()
						return
					}
					ask := c.nodes[1].p.Position()
					ask.Broker, ask.Incarnation, ask.LeaderEpoch, ask.MaxBytes = 1, c.nodes[1].incarnation, c.epoch, 1000
					_, _ = p.ReadReplica(ask)
				}()
				awaitLock("BecomeFollower", "ReadReplica")
				var got OffsetResult
				go func() {
					var err error
					got, err = p.ListOffset(Latest, isolation)
					told <- err
				}()
				awaitLock("ListOffset")
				p.mu.Unlock()
				<-changed
				if err := <-told; err == nil {
					require.Equal(t, acknowledged, got.Offset)
				} else {
					require.True(t, end && errors.Is(err, ErrNotLeader) || errors.Is(err, ErrOffsetNotAvailable), err)
				}
			})
		}
	}
}

// awaitLock returns when a call of one of these methods waits for the partition's lock.
func awaitLock(methods ...string) {
	stacks := make([]byte, 1<<20)
	for ; ; runtime.Gosched() {
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			for _, m := range methods {
				if strings.Contains(stack, "(*Partition)."+m) && strings.Contains(stack, "sync.(*Mutex)") {
					return
				}
			}
		}
	}
}
