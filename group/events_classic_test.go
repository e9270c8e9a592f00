package group

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// recordEvents returns a function that waits until all goroutines of the bubble wait, and returns
// the events since its last call.
func recordEvents(c *Coordinator) (take func() []Event) {
	var mu sync.Mutex
	var got []Event
	events := c.Events(ctx)
	go func() {
		for e := range events {
			mu.Lock()
			got = append(got, e)
			mu.Unlock()
		}
	}()
	return func() []Event {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		defer func() { got = nil }()
		return got
	}
}

var idSuffix = regexp.MustCompile(`-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var took = regexp.MustCompile(`, took [^,:]*`)

// eventLines returns events as lines, with client ids in place of the ids of classic members.
func eventLines(events []Event) (lines []string) {
	for _, e := range events {
		s := fmt.Sprintf("%v %d, %d members", e.Kind, e.Generation, e.Size)
		if e.Kind == CommitRefused {
			s = fmt.Sprintf("%v %d of %s, %d: %v", e.Kind, e.Generation, e.Member, e.Refused, e.Err)
		}
		if e.Kind == Assigned {
			s += fmt.Sprintf(", %d moved, took %v", e.Moved, e.Ended.Sub(e.Began))
		}
		if e.WaitedFor != "" {
			s += ", waited for " + e.WaitedFor
		}
		if len(e.Causes) > 0 {
			s += ": " + e.Cause()
		}
		lines = append(lines, idSuffix.ReplaceAllString(s, ""))
	}
	return lines
}

// A classicScene is a classic group on fourPartitions whose events are recorded.
type classicScene struct {
	*testing.T
	*Coordinator
	take    func() []Event
	clients []*client
}

// start starts a client of the group with that client id.
func (s *classicScene) start(name string, a assignor.Assignor, change ...func(m *client)) *client {
	m := newClient(s.Coordinator, "g", a, fourPartitions)
	m.name = name
	for _, f := range change {
		f(m)
	}
	s.clients = append(s.clients, m.start())
	return m
}

func (s *classicScene) stable(members int) {
	s.Helper()
	waitGroup(s, s.Coordinator, StableWith(members))
}

func (s *classicScene) empty() {
	s.Helper()
	waitGroup(s, s.Coordinator, func(i Info) bool { return i.State == Empty })
}

// again sends a join of a member that its client did not send.
func (s *classicScene) again(m *client, topics []string, reason string) {
	go func() {
		_, _ = s.Join(ctx, JoinRequest{Group: m.group, MemberID: m.memberID(), InstanceID: m.instance, ClientID: m.name, ClientHost: m.host, ProtocolType: "consumer",
			SessionTimeout: m.session, RebalanceTimeout: m.rebalance, Reason: reason,
			Protocols: []assignor.Protocol{{Name: m.assignor.Name(), Metadata: assignor.SubscriptionFor(m.assignor, topics, nil, -1, "")}}})
	}()
	synctest.Wait()
}

func (s *classicScene) leaves(m LeaveMember) {
	_, err := s.Leave(ctx, LeaveRequest{Group: "g", Members: []LeaveMember{m}})
	require.NoError(s, err)
}

// Each cause of a rebalance of a classic group is in the events, with the times, the members and
// the partitions that have moved.
func TestEventsTellWhyAClassicGroupRebalanced(t *testing.T) {
	static := func(m *client) { m.instance = "i" }
	hasty := func(m *client) { m.rebalance = 5 * time.Second }
	for name, c := range map[string]struct {
		run  func(s *classicScene)
		want string
	}{
		"join": {func(s *classicScene) {
			s.start("b", assignor.Range(), func(m *client) { m.reason = "a new machine" })
			s.stable(2)
		}, `
joining 1, 2 members: b joined (a new machine)
joined 2, 2 members, waited for a: b joined (a new machine)
assigned 2, 2 members, 2 moved, took 3s, waited for a: b joined (a new machine)`},
		"leave": {func(s *classicScene) {
			s.clients[0].kill()
			s.leaves(LeaveMember{MemberID: s.clients[0].memberID(), Reason: "the consumer is being closed"})
			s.empty()
		}, `
emptied 2, 0 members: a left (the consumer is being closed)`},
		"poll interval": {func(s *classicScene) {
			s.clients[0].kill()
			s.leaves(LeaveMember{MemberID: s.clients[0].memberID(), Reason: PollTimeoutReason})
			s.empty()
		}, `
emptied 2, 0 members: a exceeded its max poll interval and left`},
		"session": {func(s *classicScene) {
			s.start("b", assignor.Range())
			s.stable(2)
			s.take()
			s.clients[1].kill()
			s.stable(1)
		}, `
joining 2, 1 members: session of b ran out after being silent for 10s
joined 3, 1 members: session of b ran out after being silent for 10s
assigned 3, 1 members, 2 moved, took 2s: session of b ran out after being silent for 10s`},
		"did not rejoin": {func(s *classicScene) {
			s.start("b", assignor.Range(), hasty)
			s.stable(2)
			s.take()
			s.clients[0].rebalance = 5 * time.Second
			s.clients[1].freeze()
			s.again(s.clients[0], []string{"t", "u"}, "")
			s.stable(1)
		}, `
joining 2, 2 members: a changed its subscription
joined 3, 1 members, waited for b: a changed its subscription; b did not join again within 5s
assigned 3, 1 members, 2 moved, took 5s, waited for b: a changed its subscription; b did not join again within 5s`},
		"did not sync": {func(s *classicScene) {
			go func() {
				_, _ = s.Join(ctx, JoinRequest{Group: "g", ClientID: "b", ClientHost: "/h", ProtocolType: "consumer", SessionTimeout: time.Minute, RebalanceTimeout: 5 * time.Second,
					Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.SubscriptionFor(assignor.Range(), []string{"t"}, nil, -1, "")}}})
			}()
			time.Sleep(40 * time.Second)
			s.stable(1)
		}, `
joining 1, 2 members: b joined
joined 2, 2 members, waited for a: b joined
assigned 2, 2 members, 2 moved, took 3s, waited for a: b joined
joining 2, 1 members: b did not sync within 31s
joined 3, 1 members: b did not sync within 31s
assigned 3, 1 members, 2 moved, took 2s: b did not sync within 31s`},
		"rejoin of the leader": {func(s *classicScene) {
			s.again(s.clients[0], []string{"t"}, "topic t has 5 partitions, and had 4")
			s.stable(1)
		}, `
joining 1, 1 members: a joined again (topic t has 5 partitions, and had 4)
joined 2, 1 members: a joined again (topic t has 5 partitions, and had 4)
assigned 2, 1 members, 0 moved, took 3s: a joined again (topic t has 5 partitions, and had 4)`},
		"subscription": {func(s *classicScene) {
			s.again(s.clients[0], []string{"t", "u"}, "")
			s.stable(1)
		}, `
joining 1, 1 members: a changed its subscription
joined 2, 1 members: a changed its subscription
joining 2, 1 members: a changed its subscription; a changed its subscription
joined 3, 1 members: a changed its subscription; a changed its subscription
assigned 3, 1 members, 0 moved, took 3s: a changed its subscription; a changed its subscription`},
		"static member": {func(s *classicScene) {
			s.start("b", assignor.Range(), static)
			s.stable(2)
			s.take()
			s.clients[1].kill()
			s.again(s.clients[0], []string{"t", "u"}, "")
			s.start("c", assignor.Range(), static)
			s.stable(2)
		}, `
joining 2, 2 members: a changed its subscription
joined 3, 2 members, waited for i: a changed its subscription; static member replaced by i
joining 3, 2 members: a changed its subscription; static member replaced by i; a changed its subscription
joined 4, 2 members, waited for i: a changed its subscription; static member replaced by i; a changed its subscription
assigned 4, 2 members, 0 moved, took 3s, waited for i: a changed its subscription; static member replaced by i; a changed its subscription`},
		// a cooperative member gives up its partitions in the first round
		"two rounds": {func(s *classicScene) {
			s.clients[0].kill()
			s.leaves(LeaveMember{MemberID: s.clients[0].memberID()})
			s.start("b", assignor.CooperativeSticky())
			s.stable(1)
			s.take()
			s.start("c", assignor.CooperativeSticky())
			time.Sleep(20 * time.Second)
			s.stable(2)
		}, `
joining 3, 2 members: c joined
joined 4, 2 members, waited for b: c joined
assigned 4, 2 members, 0 moved, waited for b: c joined
joining 4, 2 members: b gave up partitions, which are assigned in a second round
joined 5, 2 members, waited for c: b gave up partitions, which are assigned in a second round
assigned 5, 2 members, 2 moved, waited for c: b gave up partitions, which are assigned in a second round`},
		"administrator": {func(s *classicScene) {
			s.start("b", assignor.Range(), static)
			s.stable(2)
			s.take()
			s.clients[1].kill()
			s.leaves(LeaveMember{InstanceID: "i"})
			s.stable(1)
		}, `
joining 2, 1 members: an administrator removed i
joined 3, 1 members: an administrator removed i
assigned 3, 1 members, 2 moved, took 3s: an administrator removed i`},
		"administrator with Kafka's client": {func(s *classicScene) {
			s.clients[0].kill()
			s.leaves(LeaveMember{MemberID: s.clients[0].memberID(), Reason: "member was removed by an admin"})
			s.empty()
		}, `
emptied 2, 0 members: an administrator removed a`},
		"rewind": {func(s *classicScene) {
			_, err := s.RewindGroup(ctx, "g", ToOffsets(record.Offsets{{Topic: "t"}: 0}))
			require.NoError(s, err)
			s.stable(1)
		}, `
emptied 2, 0 members: an administrator removed all members
joining 2, 1 members: a joined
joined 3, 1 members: a joined
assigned 3, 1 members, 4 moved, took 0s: a joined`},
		"deleted": {func(s *classicScene) {
			s.clients[0].stop(s)
			s.empty()
			require.NoError(s, s.DeleteGroup(ctx, "g"))
		}, `
emptied 2, 0 members: a left
removed 2, 0 members: an administrator deleted it`},
		"expired": {func(s *classicScene) {
			s.clients[0].stop(s)
			time.Sleep(11 * time.Minute)
		}, `
emptied 2, 0 members: a left
removed 2, 0 members: it expired`},
		"cancelled join": {func(s *classicScene) {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := s.Join(short, JoinRequest{Group: "g", ClientID: "b", ClientHost: "/h", ProtocolType: "consumer", SessionTimeout: time.Minute,
				Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.SubscriptionFor(assignor.Range(), []string{"t"}, nil, -1, "")}}})
			require.ErrorIs(s, err, context.DeadlineExceeded)
			s.stable(1)
		}, `
joining 1, 2 members: b joined
joined 2, 1 members: b joined; b left (its client does not wait for the join any more)
assigned 2, 1 members, 0 moved, took 3s: b joined; b left (its client does not wait for the join any more)`},
		"refused commits": {func(s *classicScene) {
			r := commitOf("g", record.Offsets{{Topic: "t"}: 1})
			r.MemberID, r.Generation = "stranger", 1
			for range 12 {
				_, err := s.CommitOffsets(ctx, r)
				require.ErrorIs(s, err, ErrUnknownMember)
				time.Sleep(100 * time.Millisecond)
			}
		}, `
commit refused 1 of stranger, 1: group: unknown member id
commit refused 1 of stranger, 10: group: unknown member id`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, newFakeStore(fourPartitions), Config{}, func(t *testing.T, co *Coordinator) {
				s := &classicScene{T: t, Coordinator: co, take: recordEvents(co)}
				defer func() {
					for _, m := range s.clients {
						m.kill()
					}
				}()
				s.start("a", assignor.Range(), func(m *client) { m.rebalance = 31 * time.Second }) // ends between two heartbeats
				s.stable(1)
				require.Equal(t, []string{"joining 0, 1 members: a joined", "joined 1, 1 members: a joined", "assigned 1, 1 members, 4 moved, took 0s: a joined"}, eventLines(s.take()))
				c.run(s)
				got := strings.Join(eventLines(s.take()), "\n")
				if !strings.Contains(c.want, "took") { // which depends on the member that runs first
					got = took.ReplaceAllString(got, "")
				}
				require.Equal(t, strings.TrimSpace(c.want), got)
			})
		})
	}
}
