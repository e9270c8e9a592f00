package group

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

var storms = flag.Int("storms", 30, "number of storms per assignor")

// A storm has members that join, leave, die and freeze, and a coordinator that restarts. It checks
// the ownership of partitions.
type storm struct {
	t          *testing.T
	store      Store
	cfg        Config
	at         live
	check      func() // checks the events of the present coordinator, once it is closed
	assignor   assignor.Assignor
	partitions map[string]int32
	rnd        *rand.Rand
	members    []*client
	started    int

	mu         sync.Mutex
	generation map[string]string // "generation/partition" -> instance or member id
	// member that works on the partition at this moment
	holder    map[record.TopicPartition]*client
	zombies   map[*client]bool                // frozen, and has not noticed the changes since
	committed map[record.TopicPartition]int64 // by the last successful commit
	position  map[*client]map[record.TopicPartition]int64
	wrong     []string
	handovers int

	generations map[*client]int32 // the last generation in which it had partitions
	busy        busy
	moves       *moves // of the group's coordinator; nil: it does not move
}

func (s *storm) complain(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *storm) start() {
	m := newClient(nil, "g", s.assignor, s.partitions)
	s.started++
	m.at, m.session, m.rebalance, m.beat = &s.at, 6*time.Second, 10*time.Second, time.Second
	if s.rnd.IntN(3) == 0 {
		m.instance = fmt.Sprint("i", s.started)
	}
	m.onOwn, m.onBeat = s.owns, s.works
	m.remote = s.moves != nil && s.rnd.IntN(2) == 0
	m.busy = &s.busy
	// its new id is lost with a coordinator that dies during its first rebalance
	m.restarts = s.moves != nil
	s.mu.Lock()
	s.position[m] = map[record.TopicPartition]int64{}
	s.mu.Unlock()
	s.members = append(s.members, m.start())
}

func (s *storm) event() {
	i := 0
	if len(s.members) > 0 {
		i = s.rnd.IntN(len(s.members))
	}
	if s.moves != nil && s.rnd.IntN(2) == 0 {
		s.move()
		return
	}
	switch n := s.rnd.IntN(10); {
	case n < 3 || len(s.members) < 2:
		if len(s.members) < 8 {
			s.start()
		}
	case n < 5: // leaves
		m := s.members[i]
		s.members = slices.Delete(s.members, i, i+1)
		m.kill()
		s.dead(m)
		_, _ = m.coordinator().Leave(ctx, LeaveRequest{Group: "g", Members: []LeaveMember{{MemberID: m.memberID()}}})
	case n < 6: // dies
		m := s.members[i]
		s.members = slices.Delete(s.members, i, i+1)
		m.kill()
		s.dead(m)
	case n < 8: // freezes, perhaps past its session
		m := s.members[i]
		s.mu.Lock()
		s.zombies[m] = true
		s.mu.Unlock()
		thaw := m.freeze()
		time.AfterFunc(time.Duration(s.rnd.IntN(15_000))*time.Millisecond, thaw)
	case n < 9:
		s.restart()
	default:
		time.Sleep(5 * time.Second)
	}
	time.Sleep(time.Duration(s.rnd.IntN(3000)) * time.Millisecond)
}

func (s *storm) restart() {
	s.close()
	c, err := NewCoordinator(s.store, s.cfg)
	require.NoError(s.t, err)
	s.check = checkEvents(s.t, c)
	s.at.p.Store(c)
}

// close ends the present coordinator, if any, and checks its events.
func (s *storm) close() {
	if c := s.at.p.Load(); c != nil {
		require.NoError(s.t, c.Close())
		s.check()
	}
}

func runStorm(t *testing.T, a assignor.Assignor, seed uint64, events int) (wrong []string) {
	return runStormOn(t, a, seed, events, nil, func(*testing.T) (Store, func()) {
		store := newFakeStore(map[string]int32{"t": 6, "u": 3})
		store.syncTime = 5 * time.Millisecond
		return store, func() {}
	})
}

func runStormOn(t *testing.T, a assignor.Assignor, seed uint64, events int, moves *moves, open func(*testing.T) (Store, func())) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		store, done := open(t)
		defer done()
		s := &storm{t: t, store: store, assignor: a, partitions: map[string]int32{"t": 6, "u": 3}, rnd: rand.New(rand.NewPCG(seed, 0)),
			generation: map[string]string{}, holder: map[record.TopicPartition]*client{}, zombies: map[*client]bool{}, committed: map[record.TopicPartition]int64{}, position: map[*client]map[record.TopicPartition]int64{},
			generations: map[*client]int32{}, moves: moves}
		if moves != nil {
			s.cfg = onePartition // the partition that moves
		}
		s.restart()
		defer s.close()
		for range events {
			s.event()
		}
		if len(s.members) == 0 {
			s.start()
		}
		if moves != nil {
			moves.end(s)
		}
		time.Sleep(15 * time.Second) // the last one has thawed
		// From here on: session timeout plus rebalance timeout, and heartbeats to notice it. A
		// cooperative move takes two rounds.
		time.Sleep(6*time.Second + 10*time.Second + 2*time.Second)
		synctest.Wait()
		s.mu.Lock()
		confirmed := maps.Clone(s.committed)
		s.mu.Unlock()
		info, err := s.at.p.Load().Group(ctx, "g")
		require.NoError(t, err)
		require.True(t, StableWith(len(s.members))(info), "seed %d: %d members should be there: %+v", seed, len(s.members), info)
		require.Equal(t, 9, assigned(info), "seed %d: %+v", seed, info)
		for tp, offset := range confirmed {
			require.GreaterOrEqual(t, info.Offsets[tp].Offset, offset, "seed %d: %v", seed, tp)
		}
		for _, m := range s.members {
			m.kill()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		wrong = s.wrong
		require.Greater(t, s.handovers, 9, "nothing happened")
		require.NotEmpty(t, s.committed)
	})
	return wrong
}

func TestNoPartitionHasTwoOwnersInARebalanceStorm(t *testing.T) {
	seeds := *storms
	if sample.Hurried() {
		seeds = 5
	}
	for _, a := range []assignor.Assignor{assignor.Range(), assignor.Sticky(), assignor.CooperativeSticky()} {
		t.Run(a.Name(), func(t *testing.T) {
			for seed := range seeds {
				require.Empty(t, runStorm(t, a, uint64(seed), 60), "seed %d", seed)
			}
		})
	}
}

func TestStormOverABrokerWithADisk(t *testing.T) {
	for _, a := range []assignor.Assignor{assignor.Sticky(), assignor.CooperativeSticky()} {
		t.Run(a.Name(), func(t *testing.T) {
			for seed := range 3 {
				wrong := runStormOn(t, a, uint64(seed), 60, nil, func(t *testing.T) (Store, func()) {
					brokers, err := replication.Open(replication.Config{})
					require.NoError(t, err)
					for name, n := range map[string]int{"t": 6, "u": 3} {
						require.NoError(t, brokers.CreateTopic(ctx, name, topic.Config{Partitions: n}))
					}
					return ClusterStore(brokers), func() { require.NoError(t, brokers.Close()) }
				})
				require.Empty(t, wrong, "seed %d", seed)
			}
		})
	}
}

// hasty moves partitions without waiting for their owners, but its Cooperative returns true, so
// that members keep reading.
type hasty struct{ assignor.Assignor }

func (hasty) Cooperative() bool { return true }

func TestStormNoticesAHandOverThatComesTooEarly(t *testing.T) {
	var wrong []string
	for seed := range 3 {
		wrong = append(wrong, runStorm(t, hasty{assignor.Range()}, uint64(seed), 60)...)
	}
	require.NotEmpty(t, wrong)
}

// A member that processes one record for ten minutes is removed at the rebalance timeout. The
// others get its partitions.
func TestSlowMemberIsLeftBehindByTheRebalance(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		slow := newClient(c, "g", assignor.Range(), partitions)
		slow.session = 30 * time.Minute
		slow.start()
		waitGroup(t, c, StableWith(1))
		thaw := slow.freeze()
		begin := time.Now()
		other := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, func(i Info) bool { return StableWith(1)(i) && i.Members[0].ID == other.memberID() && assigned(i) == 4 })
		require.LessOrEqual(t, time.Since(begin), slow.rebalance+time.Second)
		time.Sleep(10 * time.Minute)
		thaw()
		waitGroup(t, c, StableWith(2))
		slow.stop(t)
		other.stop(t)
	})
}
