package interop

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz-go: consumer groups, with every balancer.
var _ = func() bool {
	for name, b := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "round-robin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()} {
		add("franz-go/group-"+name, func(t *testing.T, k target) { franzGroup(t, k, b) })
	}
	return true
}()

// A reader polls in the background and records its partitions and the values it read.
type reader struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	owned map[int32]bool
	seen  []string
}

func read(t *testing.T, k target, topic, group string, opts ...kgo.Opt) *reader {
	r := &reader{done: make(chan struct{}), owned: map[int32]bool{}}
	note := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, p := range parts[topic] {
				if r.owned[p] = has; !has {
					delete(r.owned, p)
				}
			}
		}
	}
	r.cl = franz(t, k, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second), kgo.OnPartitionsAssigned(note(true)), kgo.OnPartitionsRevoked(note(false)), kgo.OnPartitionsLost(note(false))}, opts...)...)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			f := r.cl.PollFetches(ctx)
			r.mu.Lock()
			f.EachRecord(func(rec *kgo.Record) { r.seen = append(r.seen, string(rec.Value)) })
			r.mu.Unlock()
		}
	}()
	t.Cleanup(r.stop)
	return r
}

func (r *reader) stop() { r.cancel(); <-r.done }

func (r *reader) owns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owned)
}

func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// distinct returns the number of different records that the readers have seen. After a rebalance
// some are seen twice.
func distinct(readers ...*reader) int {
	all := map[string]bool{}
	for _, r := range readers {
		r.mu.Lock()
		for _, v := range r.seen {
			all[v] = true
		}
		r.mu.Unlock()
	}
	return len(all)
}

// eventually polls cond until it holds, for at most a minute.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 60*time.Second, 20*time.Millisecond, what)
}

func franzGroup(t *testing.T, k target, balancer kgo.GroupBalancer) {
	topic, group := newTopic(t, k, 6), fresh("group")
	p := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	write := func(from, n int) {
		for i := from; i < from+n; i++ {
			require.NoError(t, p.ProduceSync(within(t), &kgo.Record{Value: value(i)}).FirstErr())
		}
	}
	write(0, 60)
	a := read(t, k, topic, group, kgo.Balancers(balancer))
	eventually(t, "one member reads everything", func() bool { return a.owns() == 6 && a.count() == 60 })
	b := read(t, k, topic, group, kgo.Balancers(balancer))
	eventually(t, "two members share", func() bool { return a.owns() == 3 && b.owns() == 3 })
	require.NoError(t, a.cl.CommitUncommittedOffsets(within(t)))
	write(60, 60)
	eventually(t, "both read on", func() bool { return distinct(a, b) == 120 && b.count() > 0 })

	adm := kadm.NewClient(p)
	described, err := adm.DescribeGroups(within(t), group)
	require.NoError(t, err)
	require.Equal(t, "Stable", described[group].State)
	require.Len(t, described[group].Members, 2)
	members := described[group]
	require.Len(t, members.AssignedPartitions()[topic], 6)

	require.NoError(t, a.cl.CommitUncommittedOffsets(within(t)))
	require.NoError(t, b.cl.CommitUncommittedOffsets(within(t)))
	b.stop()
	b.cl.LeaveGroup()
	eventually(t, "the first one takes over", func() bool { return a.owns() == 6 })
	require.NoError(t, a.cl.CommitUncommittedOffsets(within(t)))
	a.stop()
	a.cl.LeaveGroup()
	lag, err := adm.Lag(within(t), group)
	require.NoError(t, err)
	require.NoError(t, lag.Error())
	require.Zero(t, lag[group].Lag.Total())
	require.Equal(t, "Empty", lag[group].State)
	dropped, err := adm.DeleteGroup(within(t), group)
	require.NoError(t, err)
	require.NoError(t, dropped.Err)
}

var _ = add("franz-go/group-static-member-comes-back", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 4), fresh("group")
	a := read(t, k, topic, group, kgo.InstanceID("one"))
	b := read(t, k, topic, group, kgo.InstanceID("two"))
	eventually(t, "two members share", func() bool { return a.owns() == 2 && b.owns() == 2 })
	_, generation := b.cl.GroupMetadata()
	a.stop()
	a.cl.Close() // a static member does not leave
	again := read(t, k, topic, group, kgo.InstanceID("one"))
	eventually(t, "the member is back", func() bool { return again.owns() == 2 })
	_, after := b.cl.GroupMetadata()
	require.Equal(t, generation, after, "nobody else noticed")
})

var _ = add("franz-go/group-goes-on-where-it-stopped", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 1), fresh("group")
	seed(t, k, topic, 10)
	for range 2 {
		cl := franz(t, k, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		f := cl.PollRecords(within(t), 5)
		require.NoError(t, f.Err())
		require.NoError(t, cl.CommitRecords(within(t), f.Records()...))
		cl.LeaveGroup()
	}
	got, err := admin(t, k).FetchOffsets(within(t), group)
	require.NoError(t, err)
	at, ok := got.Lookup(topic, 0)
	require.True(t, ok)
	require.EqualValues(t, 10, at.At)
})
