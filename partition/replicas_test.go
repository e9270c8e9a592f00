package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// replicas is one partition on several disks, and its leader. The test does the work of controller
// and network, one step at a time.
type replicas struct {
	t      *testing.T
	r      *rand.Rand
	cfg    Config
	nodes  []*replicaNode
	leader int
	epoch  int32
	change int32 // partition epoch
	inSync []int32

	mu    sync.Mutex // guards the fields below: they are written by completions
	asked []InSyncProposal
	acked map[string]int64 // with acks=all
	first map[string]int64 // with acks=1
	fails map[string]error
}

type replicaNode struct {
	id          int32
	incarnation int64
	fs          *vfs.MemFS
	p           *Partition
	dead        bool // under mu
}

func newReplicas(t *testing.T, n int, cfg Config, seed uint64) *replicas {
	c := &replicas{t: t, r: newRand(seed), cfg: cfg, acked: map[string]int64{}, first: map[string]int64{}, fails: map[string]error{}}
	for id := range int32(n) {
		node := &replicaNode{id: id, fs: vfs.Mem()}
		c.nodes = append(c.nodes, node)
		c.inSync = append(c.inSync, id)
		c.open(node)
	}
	c.leader = 0
	c.lead()
	t.Cleanup(func() {
		for _, n := range c.nodes {
			_ = n.p.Close()
		}
	})
	return c
}

func (c *replicas) open(n *replicaNode) {
	cfg := c.cfg
	cfg.Log.FS = n.fs
	var err error
	n.p, err = Open("p", cfg)
	require.NoError(c.t, err)
	n.incarnation++
	c.mu.Lock()
	n.dead = false
	c.mu.Unlock()
}

func (c *replicas) leadership() Leadership {
	l := Leadership{Epoch: c.epoch, Broker: int32(c.leader), PartitionEpoch: c.change, InSync: c.inSync, Ask: func(p InSyncProposal) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, p)
	}}
	for _, n := range c.nodes {
		l.Replicas = append(l.Replicas, n.id)
		if n.id != l.Broker {
			l.Followers = append(l.Followers, Follower{Broker: n.id, Incarnation: n.incarnation, Alive: !n.dead})
		}
	}
	return l
}

// lead begins a leader epoch.
func (c *replicas) lead() {
	c.epoch++
	c.change++
	for _, n := range c.nodes {
		if !n.dead && n.id != int32(c.leader) {
			require.NoError(c.t, n.p.Follow(c.epoch))
		}
	}
	require.NoError(c.t, c.nodes[c.leader].p.Lead(c.leadership()))
}

// produce sends a batch and does not wait for its acknowledgement.
func (c *replicas) produce(s batchSpec, acks record.Acks) {
	n := c.nodes[c.leader]
	n.p.Produce(&ProduceRequest{Batch: s.build(), Acks: acks, Done: func(r ProduceResult) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case n.dead:
		case r.Err != nil:
			c.fails[s.value] = r.Err
		case acks == record.AcksAll:
			c.acked[s.value] = r.BaseOffset
		default:
			c.first[s.value] = r.BaseOffset
		}
	}})
}

// pull makes a follower fetch from its leader once, and store the response.
func (c *replicas) pull(n *replicaNode) {
	if n.dead || n.id == int32(c.leader) {
		return
	}
	ask := n.p.Position()
	ask.Broker, ask.Incarnation, ask.LeaderEpoch, ask.MaxBytes = n.id, n.incarnation, c.epoch, 200+c.r.IntN(2000)
	read, err := c.nodes[c.leader].p.ReadReplica(ask)
	require.NoError(c.t, err)
	if read.Diverging != nil {
		lost, err := n.p.Converge(ask, *read.Diverging)
		require.NoError(c.t, err)
		require.Zero(c.t, lost)
		return
	}
	done := make(chan error, 1)
	n.p.CopyFrom(&Copy{Epoch: c.epoch, Offset: ask.Offset, Batches: read.Bytes, HighWatermark: read.HighWatermark, LogStart: read.LogStart, Done: func(err error) { done <- err }})
	require.NoError(c.t, <-done)
}

// decide commits the in-sync sets that the leader has proposed, if they are still valid.
func (c *replicas) decide() {
	c.mu.Lock()
	asked := c.asked
	c.asked = nil
	c.mu.Unlock()
	for _, p := range asked {
		dead := slices.ContainsFunc(p.InSync, func(b int32) bool { return c.nodes[b].dead })
		if p.Epoch != c.change || dead {
			c.nodes[c.leader].p.Declined(p)
			continue
		}
		c.inSync = p.InSync
		c.change++
		c.nodes[c.leader].p.Reassure(c.leadership())
	}
}

// kill cuts the power of a broker. The next leader is a replica in sync.
func (c *replicas) kill(n *replicaNode) {
	if n.dead || len(c.inSync) == 1 && c.inSync[0] == n.id {
		return
	}
	c.mu.Lock()
	n.dead = true
	c.mu.Unlock()
	after := n.fs.Crash(c.r.Uint64())
	_ = n.p.Close()
	n.fs = after
	c.inSync = slices.DeleteFunc(slices.Clone(c.inSync), func(b int32) bool { return b == n.id })
	if int(n.id) == c.leader {
		c.leader = int(c.inSync[c.r.IntN(len(c.inSync))])
		c.lead()
		return
	}
	c.change++
	c.nodes[c.leader].p.Reassure(c.leadership())
}

func (c *replicas) restart(n *replicaNode) {
	if !n.dead {
		return
	}
	c.open(n)
	require.NoError(c.t, n.p.Follow(c.epoch))
	c.change++
	c.nodes[c.leader].p.Reassure(c.leadership())
}

// settle brings all replicas to the same end.
func (c *replicas) settle() {
	for _, n := range c.nodes {
		c.restart(n)
	}
	leader := c.nodes[c.leader].p
	// It is the last batch in the queue: all batches before it are written.
	require.NoError(c.t, sendBytes(leader, batchSpec{value: "last"}.build(), record.AcksLeader).Err)
	for range 1000 {
		for _, n := range c.nodes {
			c.pull(n)
		}
		c.decide()
		if len(c.inSync) == len(c.nodes) && leader.HighWatermark() == leader.LogEndOffset() {
			for _, n := range c.nodes {
				c.pull(n) // they get the high watermark
			}
			return
		}
	}
	c.t.Fatalf("in sync are %v, high watermark %d, end %d", c.inSync, leader.HighWatermark(), leader.LogEndOffset())
}

// whole returns all bytes of a replica's log.
func whole(t *testing.T, p *Partition) []byte {
	t.Helper()
	var out []byte
	for from := p.LogStartOffset(); from < p.LogEndOffset(); {
		read, err := p.log.ReadUpTo(nil, from, 1<<20, p.LogEndOffset())
		require.NoError(t, err)
		for rest := read; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			require.NoError(t, err)
			from, rest = b.NextOffset(), rest[n:]
		}
		out = append(out, read...)
	}
	return out
}

func TestFollowersHoldWhatTheLeaderAcknowledged(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	for seed := range uint64(seeds) {
		for _, sync := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
			t.Run(fmt.Sprint(seed, sync), func(t *testing.T) { followersHoldWhatTheLeaderAcknowledged(t, seed, sync) })
		}
	}
}

func followersHoldWhatTheLeaderAcknowledged(t *testing.T, seed uint64, sync log.SyncPolicy) {
	c := newReplicas(t, 3, Config{Topic: "t", MinInSync: 1 + int(seed%2), Log: log.Config{Sync: sync, SegmentBytes: 2000}}, seed)
	seq, value := int32(0), 0
	for range 120 {
		n := c.nodes[c.r.IntN(len(c.nodes))]
		switch k := c.r.IntN(20); {
		case k < 6:
			value++
			s := batchSpec{value: fmt.Sprint(value, "-"), n: 1 + c.r.IntN(4)}
			acks := []record.Acks{record.AcksAll, record.AcksAll, record.AcksLeader}[c.r.IntN(3)]
			if c.r.IntN(3) == 0 && acks == record.AcksAll {
				s.pid, s.seq = int64(value), 0
			}
			seq++
			c.produce(s, acks)
		case k < 15:
			c.pull(n)
		case k < 17:
			c.decide()
		case k < 18:
			c.kill(n)
		case k < 20:
			c.restart(n)
		}
	}
	c.settle()
	leader := c.nodes[c.leader].p
	want := whole(t, leader)
	have := map[string]int64{}
	for _, s := range readAll(t, leader, ReadUncommitted) {
		have[s.Value] = s.Offset
	}
	c.mu.Lock()
	for v, offset := range c.acked {
		got, ok := have[v+"0"]
		require.True(t, ok, "acknowledged and gone: %s at %d", v, offset)
		require.Equal(t, offset, got)
	}
	for v, err := range c.fails {
		require.True(t, isOneOf(err, ErrNotEnoughReplicas, ErrNotLeaderAfterAppend, ErrNotLeader, ErrClosed), "%s: %v", v, err)
	}
	c.mu.Unlock()
	for _, n := range c.nodes {
		require.Equal(t, want, whole(t, n.p), "log of %d", n.id)
		require.Equal(t, leader.HighWatermark(), n.p.HighWatermark())
		states := n.p.Producers()
		require.Len(t, states, len(leader.Producers()))
		for i, s := range leader.Producers() {
			require.Equal(t, s.ProducerID, states[i].ProducerID)
			require.Equal(t, s.LastSequence, states[i].LastSequence)
		}
	}
}

// Acknowledged records survive the loss of power of all replicas at once, regardless of which
// in-sync replica leads then.
func TestAllReplicasLosePower(t *testing.T) {
	for seed := range uint64(20) {
		c := newReplicas(t, 3, Config{Topic: "t", MinInSync: 2, Log: log.Config{Sync: log.SyncOnAck}}, seed)
		for i := range 30 {
			c.produce(batchSpec{value: fmt.Sprint(i, "-")}, record.AcksAll)
			c.pull(c.nodes[c.r.IntN(3)])
		}
		c.mu.Lock()
		for _, n := range c.nodes {
			n.dead = true
		}
		c.mu.Unlock()
		for _, n := range c.nodes {
			after := n.fs.Crash(c.r.Uint64())
			_ = n.p.Close()
			n.fs = after
			c.open(n)
		}
		c.leader = int(c.inSync[c.r.IntN(len(c.inSync))])
		c.lead()
		_, err := c.nodes[c.leader].p.ListOffset(Latest, ReadUncommitted)
		if c.nodes[c.leader].p.LogEndOffset() > 0 {
			require.ErrorIs(t, err, ErrOffsetNotAvailable)
		}
		c.settle()
		have := map[string]int64{}
		for _, s := range readAll(t, c.nodes[c.leader].p, ReadUncommitted) {
			have[s.Value] = s.Offset
		}
		for v, offset := range c.acked {
			require.Contains(t, have, v+"0")
			require.Equal(t, offset, have[v+"0"])
		}
		for _, n := range c.nodes {
			require.Equal(t, whole(t, c.nodes[c.leader].p), whole(t, n.p))
		}
	}
}

func TestAcknowledgementWaitsForThoseInSync(t *testing.T) {
	synctest.Test(t, acknowledgementWaitsForThoseInSync)
}

func acknowledgementWaitsForThoseInSync(t *testing.T) {
	c := newReplicas(t, 3, Config{Topic: "t", MinInSync: 2, Log: log.Config{Sync: log.SyncNever}}, 1)
	c.produce(batchSpec{value: "a"}, record.AcksAll)
	c.pull(c.nodes[1])
	c.pull(c.nodes[1])
	require.Empty(t, c.acked)
	require.Zero(t, c.nodes[0].p.HighWatermark())
	c.pull(c.nodes[2])
	c.pull(c.nodes[2])
	require.Contains(t, c.acked, "a")
	require.EqualValues(t, 1, c.nodes[0].p.HighWatermark())
	require.Zero(t, c.nodes[1].p.HighWatermark())
	c.pull(c.nodes[1])
	require.EqualValues(t, 1, c.nodes[1].p.HighWatermark())

	c.produce(batchSpec{value: "b"}, record.AcksAll)
	time.Sleep(time.Minute)
	c.nodes[0].p.CheckLag()
	c.decide()
	require.Equal(t, []int32{0}, c.inSync)
	c.produce(batchSpec{value: "c"}, record.AcksAll)
	require.ErrorIs(t, c.fails["c"], ErrNotEnoughReplicas)
	c.produce(batchSpec{value: "d"}, record.AcksLeader)
	require.Contains(t, c.first, "d")
	require.EqualValues(t, 1, c.nodes[0].p.HighWatermark(), "below the minimum nothing is shown")
	require.NotContains(t, c.acked, "b")
	c.settle()
	require.Contains(t, c.acked, "b")
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// When a batch cannot be written, the batches behind it are not written either.
func TestCopyLeavesNoHole(t *testing.T) {
	leader := openLeader(t, Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncNever}})
	for i := range 6 {
		require.NoError(t, send(leader, batchSpec{value: fmt.Sprint(i, "-"), values: []string{strings.Repeat("x", 900)}}).Err)
	}
	// Two batches a segment: the run is written in three parts. The second one fails.
	mem := vfs.Mem()
	cfg := Config{Topic: "t", Log: log.Config{FS: mem, Sync: log.SyncNever, SegmentBytes: 2000}}
	p, err := Open("p", cfg)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Follow(0))
	read, err := leader.log.ReadUpTo(nil, 0, 1<<20, 6)
	require.NoError(t, err)
	heal := mem.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*2.log", Err: syscall.ENOSPC})
	done := make(chan error, 1)
	p.CopyFrom(&Copy{Epoch: 0, Batches: read, HighWatermark: 6, Done: func(err error) { done <- err }})
	require.ErrorIs(t, <-done, syscall.ENOSPC)
	heal()
	require.EqualValues(t, 2, p.LogEndOffset())
	require.EqualValues(t, 2, p.Position().Offset)

	read, err = leader.log.ReadUpTo(nil, 2, 1<<20, 6)
	require.NoError(t, err)
	p.CopyFrom(&Copy{Epoch: 0, Offset: 2, Batches: read, HighWatermark: 6, Done: func(err error) { done <- err }})
	require.NoError(t, <-done)
	require.Equal(t, whole(t, leader), whole(t, p))
}

// A batch that needs a new segment follows one whose write fails. It is rejected, and no segment
// is begun for it, because the failed batch would not fit before that segment when it is sent
// again.
func TestCopyLeavesNoHoleWhereASegmentWouldBegin(t *testing.T) {
	leader := openLeader(t, Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncNever}})
	for _, size := range []int{900, 100, 1500} {
		require.NoError(t, send(leader, batchSpec{value: "-", values: []string{strings.Repeat("x", size)}}).Err)
	}
	mem := vfs.Mem()
	cfg := Config{Topic: "t", Log: log.Config{FS: mem, Sync: log.SyncNever, SegmentBytes: 2000}}
	p, err := Open("p", cfg)
	require.NoError(t, err)
	require.NoError(t, p.Follow(0))
	copyFrom := func(offset, end int64) error {
		read, err := leader.log.ReadUpTo(nil, offset, 1<<20, end)
		require.NoError(t, err)
		done := make(chan error, 1)
		p.CopyFrom(&Copy{Epoch: 0, Offset: offset, Batches: read, HighWatermark: end, Done: func(err error) { done <- err }})
		return <-done
	}
	require.NoError(t, copyFrom(0, 1))
	heal := mem.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*0.log", Err: syscall.ENOSPC})
	require.ErrorIs(t, copyFrom(1, 3), syscall.ENOSPC)
	heal()
	require.EqualValues(t, 1, p.Position().Offset)
	require.NoError(t, p.Close())

	p, err = Open("p", cfg)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Follow(0))
	require.EqualValues(t, 1, p.Position().Offset, "what was refused was not there")
	require.NoError(t, copyFrom(1, 3))
	require.Equal(t, whole(t, leader), whole(t, p))
}

// A leader records its epoch before its first append. If it never appended, the next leader may
// have records of older epochs there.
func TestFollowerForgetsAnEpochWithoutRecords(t *testing.T) {
	old := openLeader(t, Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncNever}})
	require.NoError(t, send(old, batchSpec{value: "a"}).Err)
	read := whole(t, old)
	p, err := Open("p", Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncNever}})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Lead(Leadership{Epoch: 3}))
	require.NoError(t, p.Follow(4))
	done := make(chan error, 1)
	p.CopyFrom(&Copy{Epoch: 4, Batches: read, HighWatermark: 1, Done: func(err error) { done <- err }})
	require.NoError(t, <-done)
	require.EqualValues(t, 0, p.Position().LastEpoch)
}

func TestFollowerTakesNothingOfAnEarlierLeader(t *testing.T) {
	leader := openLeader(t, Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncNever}})
	require.NoError(t, send(leader, batchSpec{value: "a"}).Err)
	p, err := Open("p", Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncNever}})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Follow(5))
	require.ErrorIs(t, p.Follow(4), ErrFencedLeaderEpoch)
	copyFrom := func(c Copy) error {
		done := make(chan error, 1)
		c.Batches, c.Done = whole(t, leader), func(err error) { done <- err }
		p.CopyFrom(&c)
		return <-done
	}
	require.ErrorIs(t, copyFrom(Copy{Epoch: 4}), ErrFencedLeaderEpoch)
	require.ErrorIs(t, copyFrom(Copy{Epoch: 5, Offset: 1}), ErrOffsetOutOfRange)
	require.Zero(t, p.LogEndOffset())
	require.NoError(t, copyFrom(Copy{Epoch: 5}))
	require.NoError(t, p.Lead(Leadership{Epoch: 6}))
	require.ErrorIs(t, copyFrom(Copy{Epoch: 6, Offset: 1}), ErrFencedLeaderEpoch)

	damaged := whole(t, leader)
	damaged[len(damaged)-1] ^= 1
	require.NoError(t, p.Follow(7))
	done := make(chan error, 1)
	p.CopyFrom(&Copy{Epoch: 7, Offset: 1, Batches: damaged, Done: func(err error) { done <- err }})
	require.ErrorIs(t, <-done, ErrCorrupt)
	p.CopyFrom(&Copy{Epoch: 7, Offset: 1, Batches: whole(t, leader)[:70], Done: func(err error) { done <- err }})
	require.Error(t, <-done)
}

// A leader counts no fetch of an unknown follower, an earlier incarnation or another epoch.
func TestReadOfAFollowerThatIsNoneIsRefused(t *testing.T) {
	c := newReplicas(t, 2, Config{Topic: "t", Log: log.Config{Sync: log.SyncNever}}, 1)
	c.produce(batchSpec{value: "a"}, record.AcksAll)
	leader := c.nodes[0].p
	good := ReplicaFetch{Broker: 1, Incarnation: 1, LeaderEpoch: c.epoch, LastEpoch: -1}
	ask := func(edit func(*ReplicaFetch)) error {
		r := good
		edit(&r)
		_, err := leader.ReadReplica(r)
		return err
	}
	require.NoError(t, ask(func(*ReplicaFetch) {}))
	require.ErrorIs(t, ask(func(r *ReplicaFetch) { r.Broker = 2 }), ErrNotReplica)
	require.ErrorIs(t, ask(func(r *ReplicaFetch) { r.Incarnation = 0 }), ErrStaleIncarnation)
	require.ErrorIs(t, ask(func(r *ReplicaFetch) { r.LeaderEpoch-- }), ErrFencedLeaderEpoch)
	require.ErrorIs(t, ask(func(r *ReplicaFetch) { r.LeaderEpoch++ }), ErrUnknownLeaderEpoch)
	require.ErrorIs(t, ask(func(r *ReplicaFetch) { r.Offset = 9 }), ErrOffsetOutOfRange)
	require.ErrorIs(t, ask(func(r *ReplicaFetch) { r.Offset, r.LastEpoch = 1, c.epoch+1 }), ErrOffsetOutOfRange)
	require.Zero(t, leader.HighWatermark())
	_, err := c.nodes[1].p.ReadReplica(good)
	require.ErrorIs(t, err, ErrNotLeader)
}

// A follower that fetches no batches counts like any other, and gets whether there are some. If
// the high watermark waits for it, it gets the batches anyway.
func TestFollowerMayAskForEverythingButBatches(t *testing.T) {
	c := newReplicas(t, 2, Config{Topic: "t", Log: log.Config{Sync: log.SyncNever}}, 1)
	c.produce(batchSpec{value: "a"}, record.AcksLeader)
	leader := c.nodes[0].p
	ask := ReplicaFetch{Broker: 1, Incarnation: 1, LeaderEpoch: c.epoch, LastEpoch: -1, MaxBytes: -1}
	got, err := leader.ReadReplica(ask)
	require.NoError(t, err)
	require.NotEmpty(t, got.Bytes, "it is in sync")
	require.False(t, got.Withheld)

	c.inSync, c.nodes[1].dead = []int32{0}, true
	c.change++
	leader.Reassure(c.leadership())
	got, err = leader.ReadReplica(ask)
	require.NoError(t, err)
	require.Empty(t, got.Bytes)
	require.True(t, got.Withheld)
	require.EqualValues(t, 1, got.HighWatermark)
	ask.Offset, ask.Durable, ask.LastEpoch = 1, 1, c.epoch
	got, err = leader.ReadReplica(ask)
	require.NoError(t, err)
	require.False(t, got.Withheld, "there are none")
	require.EqualValues(t, 1, leader.Followers()[0].End)

	c.nodes[1].dead = false
	c.produce(batchSpec{value: "b"}, record.AcksLeader)
	c.change++
	leader.Reassure(c.leadership())
	got, err = leader.ReadReplica(ask)
	require.NoError(t, err)
	require.NotEmpty(t, got.Bytes, "it was caught up and is about to join")
}
