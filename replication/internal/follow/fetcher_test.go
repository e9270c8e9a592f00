package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// pair is a leader and a follower of some partitions, of which only offsets are kept.
type pair struct {
	t    *testing.T
	net  Network
	f    *Fetcher
	stop chan struct{}
	end  chan struct{}
	all  []*fake
}

// fake is one partition on both sides. Its batches have one byte for each record.
type fake struct {
	mu     sync.Mutex // guards the fields below
	places []*Place
	end    int64 // end offset of the leader
	heard  int64 // end offset of the follower, as reported to the leader
	hw     int64
	reads  int
	err    error                 // error of the leader's responses
	copied int64                 // end offset of the follower
	until  time.Time             // batches are held back until then
	read   func()                // nil, or called when a response was found
	took   func(*partition.Copy) // nil, or called with each copy
	held   func(*partition.Copy) // nil: copies are done at once
}

func newPair(t *testing.T, n int) *pair {
	p := &pair{t: t, stop: make(chan struct{}), end: make(chan struct{})}
	p.f = New(Config{Broker: 2, Leader: 1, Incarnation: func() int64 { return 7 }, Network: &p.net})
	go func() {
		p.f.Run(p.stop)
		close(p.end)
	}()
	for i := range n {
		x := &fake{}
		p.all = append(p.all, x)
		p.f.Follow(Following{Partition: record.TopicPartition{Topic: "t", Partition: int32(i)}, Epoch: 3, Source: x, Target: x})
	}
	synctest.Wait()
	return p
}

func (p *pair) close() {
	close(p.stop)
	<-p.end
	for _, x := range p.all {
		require.Empty(p.t, x.places, "nobody is woken any more")
	}
}

func (p *pair) reads() (n int) {
	for _, x := range p.all {
		x.mu.Lock()
		n += x.reads
		x.mu.Unlock()
	}
	return n
}

// append makes the leader's log grow by n.
func (x *fake) append(n int64) {
	x.mu.Lock()
	x.end += n
	places := x.places
	x.mu.Unlock()
	for _, p := range places {
		p.Wake()
	}
}

func (x *fake) Watch(p *Place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = append(x.places, p)
}

func (x *fake) Unwatch(*Place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = nil
}

func (x *fake) Read(r partition.ReplicaFetch) (partition.ReplicaRead, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reads++
	if x.err != nil {
		return partition.ReplicaRead{}, x.err
	}
	if r.Broker != 2 || r.Incarnation != 7 || r.LeaderEpoch != 3 {
		return partition.ReplicaRead{}, fmt.Errorf("asked by %+v", r)
	}
	x.heard = max(x.heard, r.Durable)
	if x.heard > x.hw {
		x.hw = x.heard
		for _, p := range x.places {
			go p.Wake()
		}
	}
	read := partition.ReplicaRead{HighWatermark: x.hw}
	if x.read != nil {
		defer x.read()
	}
	if x.end > r.Offset && time.Now().Before(x.until) {
		return read, &HeldBack{x.until}
	}
	if x.end > r.Offset {
		var b record.Builder
		b.Reset(0)
		for range x.end - r.Offset {
			b.AppendKV(0, nil, nil, nil)
		}
		read.Bytes, _ = b.Build(record.None)
		binary.BigEndian.PutUint64(read.Bytes, uint64(r.Offset))
	}
	return read, nil
}

func (x *fake) Position() partition.ReplicaFetch {
	x.mu.Lock()
	defer x.mu.Unlock()
	return partition.ReplicaFetch{Offset: x.copied, Durable: x.copied}
}

func (x *fake) CopyFrom(c *partition.Copy) {
	x.mu.Lock()
	held := x.held
	if x.took != nil {
		x.took(c)
	}
	if held == nil && len(c.Batches) > 0 {
		b, _ := record.ParseUnverified(c.Batches)
		x.copied = b.NextOffset()
	}
	x.mu.Unlock()
	if held != nil && len(c.Batches) > 0 {
		held(c)
		return
	}
	c.Done(nil)
}

func (x *fake) Converge(partition.ReplicaFetch, partition.Divergence) error { return nil }
func (x *fake) StartAt(partition.ReplicaFetch, int64, log.Purged) error     { return nil }
func (x *fake) Seed(partition.ReplicaFetch, int64, []byte) error            { return nil }
func (x *fake) AdvanceStart(int32, int64) error                             { return nil }

func (x *fake) state() (heard, copied int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.heard, x.copied
}

func TestOnlyPartitionsWithSomethingNewAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 1000)
		defer p.close()
		require.Equal(t, 1000, p.reads(), "each once, to tell where the follower is")
		time.Sleep(time.Hour)
		require.Equal(t, 1000, p.reads(), "nobody polls")
		p.all[500].append(3)
		synctest.Wait()
		heard, copied := p.all[500].state()
		require.EqualValues(t, 3, copied)
		require.EqualValues(t, 3, heard)
		require.LessOrEqual(t, p.reads(), 1004, "one for the records, one to tell of them, one for the high watermark")
	})
}

func TestPartitionThatFailsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 3)
		defer p.close()
		bad := p.all[1]
		bad.mu.Lock()
		bad.err, bad.reads = errors.New("its disk is broken"), 0
		bad.mu.Unlock()
		for i := range 1000 {
			for _, x := range p.all {
				x.append(1)
			}
			time.Sleep(10 * time.Millisecond)
			heard, _ := p.all[0].state()
			require.EqualValues(t, i+1, heard)
		}
		bad.mu.Lock()
		reads := bad.reads
		bad.err = nil
		bad.mu.Unlock()
		require.Greater(t, reads, 10)
		require.Less(t, reads, 25, "longer pauses each time, of a second at most, whatever is appended")
		time.Sleep(time.Second)
		heard, _ := bad.state()
		require.EqualValues(t, 1000, heard)
	})
}

// A leader that is about to lead wakes followers that fetched too early.
func TestFollowerThatAsksTooEarlyIsWokenByTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 1)
		defer p.close()
		x := p.all[0]
		x.mu.Lock()
		x.err = partition.ErrNotLeader
		x.mu.Unlock()
		x.append(1)
		time.Sleep(10 * time.Second) // its pauses have become long
		x.mu.Lock()
		x.err = nil
		x.mu.Unlock()
		synctest.Wait()
		begin := time.Now()
		x.append(0)
		synctest.Wait()
		require.Equal(t, begin, time.Now())
		heard, _ := x.state()
		require.EqualValues(t, 1, heard)
	})
}

// asked returns the number of fetches of a partition since hold.
func (x *fake) asked() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reads
}

// hold makes the leader hold back a partition's batches for d.
func (x *fake) hold(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until, x.reads = time.Now().Add(d), 0
}

func TestPartitionThatIsHeldBackIsAskedForWhenItsTimeHasComeWhateverIsAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 2)
		defer p.close()
		x := p.all[0]
		x.append(1)
		synctest.Wait()
		begin := time.Now()
		x.hold(10 * time.Second)
		for i := range 999 {
			x.append(1)
			p.all[1].append(1)
			time.Sleep(10 * time.Millisecond)
			heard, _ := p.all[1].state()
			require.EqualValues(t, i+1, heard, "it holds up no other")
		}
		heard, _ := x.state()
		require.EqualValues(t, 1, heard)
		require.Equal(t, 1, x.asked(), "nobody polls")
		time.Sleep(time.Until(begin.Add(10 * time.Second)))
		synctest.Wait()
		heard, _ = x.state()
		require.EqualValues(t, 1000, heard)
	})
}

// A follower applies the high watermark of responses without batches.
func TestWhoIsHeldBackHearsTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 1)
		defer p.close()
		x := p.all[0]
		var told []int64
		x.hold(time.Minute)
		x.mu.Lock()
		x.hw, x.took = 5, func(c *partition.Copy) { told = append(told, c.HighWatermark) }
		x.mu.Unlock()
		x.append(1)
		synctest.Wait()
		require.Equal(t, []int64{5}, told)
		require.Equal(t, 1, x.asked())
	})
}

func TestPartitionsThatAreHeldBackAreLetGoAtOnce(t *testing.T) {
	for name, letGo := range map[string]func(p *pair, x *fake){
		"the quotas have changed": func(p *pair, _ *fake) { p.f.LetGo() },
		"it is in sync": func(p *pair, x *fake) {
			p.f.Follow(Following{Partition: record.TopicPartition{Topic: "t"}, Epoch: 3, Source: x, Target: x})
		},
	} {
		for _, during := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while it is asked for: %t", name, during), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPair(t, 2)
					defer p.close()
					x, failed := p.all[0], p.all[1]
					failed.mu.Lock()
					failed.err = errors.New("its disk is broken")
					failed.mu.Unlock()
					failed.append(1)
					time.Sleep(time.Minute) // its pauses have become long
					lift := func() {        // the caller holds x.mu
						x.until = time.Time{}
						letGo(p, x)
					}
					x.hold(time.Hour)
					if during {
						x.read = func() {
							x.read = nil
							lift()
						}
					}
					x.append(1)
					synctest.Wait()
					failed.mu.Lock()
					failed.reads = 0
					failed.mu.Unlock()
					begin := time.Now()
					if !during {
						x.mu.Lock()
						lift()
						x.mu.Unlock()
					}
					synctest.Wait()
					heard, _ := x.state()
					require.EqualValues(t, 1, heard)
					require.Equal(t, begin, time.Now())
					require.Zero(t, failed.asked(), "who has failed waits on")
				})
			})
		}
	}
}

func TestCutOneWayAndBothWays(t *testing.T) {
	there, back := Path{From: 2, To: 1}, Path{From: 1, To: 2}
	for name, tc := range map[string]struct {
		cut           []Path
		heard, copied int64
	}{
		"nothing":  {nil, 2, 2},
		"requests": {[]Path{there}, 1, 1},
		"answers":  {[]Path{back}, 1, 1},
		"both":     {[]Path{there, back}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, 2)
				defer p.close()
				x := p.all[0]
				x.append(1)
				synctest.Wait()
				for _, c := range tc.cut {
					p.net.Cut(c)
				}
				x.append(1)
				time.Sleep(time.Hour)
				heard, copied := x.state()
				require.Equal(t, []int64{tc.heard, tc.copied}, []int64{heard, copied})
				for _, c := range tc.cut {
					p.net.Mend(c)
				}
				synctest.Wait()
				heard, copied = x.state()
				require.Equal(t, []int64{2, 2}, []int64{heard, copied})
			})
		})
	}
}

// A follower's fetches reach the leader even if the responses do not reach the follower.
func TestLeaderHearsAFollowerThatItsAnswersDoNotReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 1)
		defer p.close()
		x := p.all[0]
		var c *partition.Copy
		x.mu.Lock()
		x.held = func(got *partition.Copy) { c = got }
		x.mu.Unlock()
		x.append(1)
		synctest.Wait()
		p.net.Cut(Path{From: 1, To: 2})
		x.mu.Lock()
		x.held, x.copied = nil, 1
		x.mu.Unlock()
		c.Done(nil)
		synctest.Wait()
		heard, _ := x.state()
		require.EqualValues(t, 1, heard)
	})
}

func TestSlowAndPausedPathsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 1)
		defer p.close()
		x := p.all[0]
		p.net.Slow(Path{From: 1, To: 2}, 30*time.Millisecond)
		p.net.Slow(Path{From: 2, To: 1}, 50*time.Millisecond)
		x.append(1)
		time.Sleep(29 * time.Millisecond)
		_, copied := x.state()
		require.Zero(t, copied)
		time.Sleep(2 * time.Millisecond)
		heard, copied := x.state()
		require.EqualValues(t, 1, copied, "the question was there already")
		require.Zero(t, heard)
		time.Sleep(50 * time.Millisecond)
		heard, _ = x.state()
		require.EqualValues(t, 1, heard)
		time.Sleep(time.Second)

		p.net.Pause(Path{From: 1, To: 2})
		asked := p.reads()
		x.append(1)
		time.Sleep(time.Hour)
		_, copied = x.state()
		require.EqualValues(t, 1, copied)
		p.net.Mend(Path{From: 1, To: 2})
		synctest.Wait()
		_, copied = x.state()
		require.EqualValues(t, 2, copied)
		require.Equal(t, asked+1, p.reads(), "it was held up, not lost, and asked for again")
	})
}

func TestBytesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 30)
		defer p.close()
		var mu sync.Mutex
		var held []*partition.Copy
		bytes := 0
		for _, x := range p.all {
			x.held = func(c *partition.Copy) {
				mu.Lock()
				defer mu.Unlock()
				held, bytes = append(held, c), bytes+len(c.Batches)
			}
			x.append(120_000) // some 800 KiB
		}
		synctest.Wait()
		require.Greater(t, bytes, maxInFlight-(1<<20))
		require.Less(t, bytes, maxInFlight+(1<<20))
		require.Less(t, len(held), 30)
		for _, x := range p.all { // no more batches
			x.mu.Lock()
			x.err = partition.ErrNotLeader
			x.mu.Unlock()
		}
		for _, c := range held {
			c.Done(errors.New("enough"))
		}
	})
}

// A partition that is no longer copied, or is copied from another source, gets no fetches from its
// former fetcher.
func TestForgottenPartitionsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 2)
		defer p.close()
		tp := record.TopicPartition{Topic: "t"}
		old, next := p.all[0], &fake{}
		p.all = append(p.all, next)
		p.f.Follow(Following{Partition: tp, Epoch: 3, Source: next, Target: next})
		require.Empty(t, old.places)
		old.append(1)
		next.append(1)
		synctest.Wait()
		require.Equal(t, 1, old.reads)
		_, copied := next.state()
		require.EqualValues(t, 1, copied)
		p.f.Forget(tp)
		p.f.Forget(tp)
		reads := next.reads
		next.append(1)
		p.f.Wake(tp)
		synctest.Wait()
		require.Equal(t, reads, next.reads)
	})
}
