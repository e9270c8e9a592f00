package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// bubbleStore is a fakeStore, or a store that embeds one.
type bubbleStore interface {
	Store
	enterBubble()
}

// inBubble runs a test of a coordinator in virtual time.
func inBubble(t *testing.T, store bubbleStore, cfg Config, f func(t *testing.T, c *Coordinator)) {
	synctest.Test(t, func(t *testing.T) {
		store.enterBubble()
		c, err := NewCoordinator(store, cfg)
		require.NoError(t, err)
		defer checkEvents(t, c)()
		defer c.Close()
		synctest.Wait()
		f(t, c)
	})
}

// live holds the coordinator of the current process.
type live struct{ p atomic.Pointer[Coordinator] }

// busy counts the requests whose answers clients wait for.
type busy struct{ join, sync, commit atomic.Int32 }

// A client behaves as a member of the consumer package: it joins, syncs, sends heartbeats and
// rejoins, until it is stopped.
type client struct {
	at                       *live
	group                    string
	assignor                 assignor.Assignor
	topics                   []string
	partitions               map[string]int32
	instance                 string
	name                     string // client id; "": c
	reason                   string // of its joins
	host                     string // "": runs in the coordinator's process
	session, rebalance, beat time.Duration
	// called at every change
	onOwn func(m *client, generation int32, owned []record.TopicPartition)
	// called when it owns no partition any more
	onLost func(m *client)
	// called before each heartbeat
	onBeat func(m *client)
	// joins again when it is fenced, as a restarted program does
	restarts bool
	// finds its coordinator by itself, as over the network
	remote bool

	busy *busy

	mu         sync.Mutex
	id         string
	generation int32
	owned      []record.TopicPartition
	frozen     chan struct{} // not nil: the client pauses until it is closed
	joins      int
	broker     int32 // broker of its coordinator, if remote

	cancel context.CancelFunc
	done   chan struct{}
}

func newClient(c *Coordinator, group string, a assignor.Assignor, partitions map[string]int32) *client {
	m := &client{at: &live{}, group: group, assignor: a, partitions: partitions, session: 10 * time.Second, rebalance: 30 * time.Second, beat: 3 * time.Second, generation: -1, host: "/10.0.0.1", busy: new(busy)}
	m.at.p.Store(c)
	for topic := range partitions {
		m.topics = append(m.topics, topic)
	}
	slices.Sort(m.topics)
	return m
}

func (m *client) start() *client {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{})
	go func() {
		defer close(m.done)
		m.run(ctx)
	}()
	return m
}

// coordinator returns the coordinator that receives the client's requests: the coordinator of its
// process or, if remote, the coordinator of the broker that it found last.
func (m *client) coordinator() *Coordinator {
	c := m.at.p.Load()
	if !m.remote {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.On(m.broker)
}

// find looks up the coordinator if err reports that it has moved or is not available.
func (m *client) find(err error) {
	if !errors.Is(err, ErrNotCoordinator) && !errors.Is(err, ErrCoordinatorNotAvailable) {
		return
	}
	if broker, err := m.at.p.Load().FindCoordinator(context.Background(), m.group); err == nil {
		m.mu.Lock()
		m.broker = broker
		m.mu.Unlock()
	}
}

// kill ends the client without a Leave request; stop leaves.
func (m *client) kill() {
	m.cancel()
	<-m.done
}

func (m *client) stop(t testing.TB) {
	m.kill()
	errs, err := m.at.p.Load().Leave(context.Background(), LeaveRequest{Group: m.group, Members: []LeaveMember{{MemberID: m.memberID()}}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

func (m *client) memberID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

func (m *client) state() (generation int32, owned []record.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation, slices.Clone(m.owned)
}

func (m *client) set(id string, generation int32, owned []record.TopicPartition) {
	m.mu.Lock()
	m.id, m.generation, m.owned = id, generation, owned
	m.mu.Unlock()
	if m.onOwn != nil {
		m.onOwn(m, generation, owned)
	}
}

func (m *client) freeze() (thaw func()) {
	ch := make(chan struct{})
	m.mu.Lock()
	m.frozen = ch
	m.mu.Unlock()
	return func() { close(ch) }
}

// thawed returns a channel that is closed when the client continues; nil if it is not frozen.
func (m *client) thawed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen != nil {
		select {
		case <-m.frozen:
		default:
			return m.frozen
		}
	}
	return nil
}

func (m *client) pause(ctx context.Context) {
	for ch := m.thawed(); ch != nil; ch = m.thawed() {
		select {
		case <-ch:
		case <-ctx.Done():
			return
		}
	}
}

func (m *client) run(ctx context.Context) {
	cooperative := assignor.AllCooperative([]assignor.Assignor{m.assignor})
	for ctx.Err() == nil {
		m.pause(ctx)
		_, owned := m.state()
		if !cooperative {
			m.set(m.memberID(), m.generation, nil) // eager: gives up all partitions
		}
		err := m.rebalanceOnce(ctx, owned)
		if err == nil {
			err = m.beats(ctx)
		}
		switch {
		case errors.Is(err, ErrUnknownMember), errors.Is(err, ErrIllegalGeneration):
			id := ""
			if errors.Is(err, ErrIllegalGeneration) {
				id = m.memberID()
			}
			if m.onLost != nil {
				m.onLost(m)
			}
			m.set(id, -1, nil)
		case errors.Is(err, ErrFencedInstance) && m.restarts:
			m.set("", -1, nil)
		case errors.Is(err, ErrRebalanceInProgress), errors.Is(err, errMoved), err == nil:
		case errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrCoordinatorNotAvailable), errors.Is(err, ErrClosed):
			m.find(err)
			time.Sleep(100 * time.Millisecond)
		default:
			return
		}
	}
}

var errMoved = errors.New("partitions were given up, join again")

func (m *client) rebalanceOnce(ctx context.Context, owned []record.TopicPartition) error {
	m.mu.Lock()
	id, generation := m.id, m.generation
	m.joins++
	m.mu.Unlock()
	m.busy.join.Add(1)
	j, err := m.coordinator().Join(ctx, JoinRequest{Group: m.group, MemberID: id, InstanceID: m.instance, ClientID: cmp.Or(m.name, "c"), ClientHost: m.host, Reason: m.reason, ProtocolType: "consumer",
		SessionTimeout: m.session, RebalanceTimeout: m.rebalance, SkipAssignment: true,
		Protocols: []assignor.Protocol{{Name: m.assignor.Name(), Metadata: assignor.SubscriptionFor(m.assignor, m.topics, owned, generation, "")}}})
	m.busy.join.Add(-1)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.id, m.generation = j.MemberID, j.Generation
	m.mu.Unlock()
	m.pause(ctx)
	sync := SyncRequest{Group: m.group, MemberID: j.MemberID, InstanceID: m.instance, Generation: j.Generation, ProtocolType: "consumer", ProtocolName: j.ProtocolName}
	if j.Leader == j.MemberID && !j.SkipAssignment {
		if sync.Assignments, err = assignor.AssignAll(m.assignor, j.Members, m.partitions); err != nil {
			return err
		}
	}
	m.busy.sync.Add(1)
	s, err := m.coordinator().Sync(ctx, sync)
	m.busy.sync.Add(-1)
	if err != nil {
		return err
	}
	a, err := assignor.ParseAssignment(s.Assignment)
	if err != nil {
		return err
	}
	sortPartitions(a.Partitions)
	m.set(j.MemberID, j.Generation, a.Partitions)
	if assignor.AllCooperative([]assignor.Assignor{m.assignor}) {
		for _, tp := range owned {
			if !slices.Contains(a.Partitions, tp) {
				return errMoved
			}
		}
	}
	return nil
}

func (m *client) beats(ctx context.Context) error {
	for {
		select {
		case <-time.After(m.beat):
		case <-ctx.Done():
			return ctx.Err()
		}
		m.pause(ctx)
		m.mu.Lock()
		r := HeartbeatRequest{Group: m.group, MemberID: m.id, InstanceID: m.instance, Generation: m.generation}
		m.mu.Unlock()
		if m.onBeat != nil {
			m.onBeat(m)
		}
		err := m.coordinator().Heartbeat(ctx, r)
		switch {
		case errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrCoordinatorNotAvailable):
			m.find(err) // it is still a member, at any coordinator
		case err != nil && !errors.Is(err, ErrClosed):
			return err
		}
	}
}
