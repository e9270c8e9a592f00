package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// newer is config for a member of the newer group protocol (KIP-848).
func newer(commit consumer.CommitMode) consumer.Config {
	cfg := config(commit)
	cfg.Protocol = consumer.ProtocolConsumer
	return cfg
}

// overheard is a backend that passes the heartbeats of the newer protocol through a function.
type overheard struct {
	consumer.Backend
	deaf bool
	by   func(req group.ConsumerHeartbeatRequest, send func() (group.ConsumerHeartbeatResponse, error)) (group.ConsumerHeartbeatResponse, error)
}

// NotifyRebalanced does nothing if o is deaf: the member learns of changes with its next
// heartbeat.
func (o *overheard) NotifyRebalanced(id string, ch chan<- struct{}) (stop func()) {
	if o.deaf {
		return func() {}
	}
	return o.Backend.NotifyRebalanced(id, ch)
}

func (o *overheard) ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	return o.by(req, func() (group.ConsumerHeartbeatResponse, error) { return o.Backend.ConsumerHeartbeat(ctx, req) })
}

func describe(t *testing.T, b *strata.Cluster, g string) group.ConsumerDescription {
	t.Helper()
	d, err := b.Backend().DescribeConsumerGroup(t.Context(), g)
	require.NoError(t, err)
	return d
}

func TestGroupOfTheNewerProtocolGoesByTheAssignorItsMembersName(t *testing.T) {
	for name, cfg := range map[string]consumer.Config{
		"uniform": {}, "range": {RemoteAssignor: "range"}, "range by a property": {Properties: map[string]string{"group.remote.assignor": "range"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
				cfg.Group, cfg.Topics, cfg.Rack, cfg.ClientID = "g", []string{"t"}, "rack", "me"
				cfg.Properties = merged(cfg.Properties, map[string]string{"group.protocol": "CONSUMER", "max.poll.interval.ms": "60000"})
				m := poll(t, open(t, b, cfg), nil)
				waitStable(t, b, "g", 1)
				synctest.Wait() // the member has the answer
				d := describe(t, b, "g")
				require.Equal(t, name[:5], d.Assignor[:5])
				require.Equal(t, "rack", d.Members[0].RackID)
				require.Equal(t, "me", d.Members[0].ClientID)
				require.Equal(t, []string{"t"}, d.Members[0].Topics)
				require.Equal(t, d.Members[0].ID, m.Metadata().MemberID)
				require.Equal(t, d.Members[0].Epoch, m.Metadata().Generation)
				m.leave(t)
				require.Empty(t, describe(t, b, "g").Members, "it has left")
			})
		})
	}
}

func merged(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func TestSettingsOfOneProtocolAreRefusedForTheOther(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		for name, edit := range map[string]func(*consumer.Config){
			"Assignors":         func(c *consumer.Config) { c.Assignors = []assignor.Assignor{assignor.Range()} },
			"SessionTimeout":    func(c *consumer.Config) { c.SessionTimeout = time.Second },
			"HeartbeatInterval": func(c *consumer.Config) { c.HeartbeatInterval = time.Second },
			"Protocol":          func(c *consumer.Config) { c.Protocol = 2 },
			"RemoteAssignor":    func(c *consumer.Config) { c.Protocol, c.RemoteAssignor = consumer.ProtocolClassic, "range" },
			"group.protocol":    func(c *consumer.Config) { c.Properties = map[string]string{"group.protocol": "classic"} },
		} {
			cfg := newer(consumer.CommitProcessed)
			edit(&cfg)
			_, err := consumer.New(over(t, b), cfg)
			var bad *consumer.ConfigError
			require.ErrorAs(t, err, &bad, name)
			require.Equal(t, name, bad.Name)
		}
		_, err := consumer.New(over(t, b), consumer.Config{Topics: []string{"t"}, Protocol: consumer.ProtocolConsumer})
		var bad *consumer.ConfigError
		require.ErrorAs(t, err, &bad)
	})
}

// A permanent rejection by the coordinator ends the consumer with its reason.
func TestMemberThatTheCoordinatorRefusesIsTold(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		cfg := newer(consumer.CommitProcessed)
		cfg.RemoteAssignor = "none"
		c := open(t, b, cfg)
		_, err := c.Poll(t.Context())
		require.ErrorIs(t, err, group.ErrUnsupportedAssignor)
		require.NoError(t, c.Close())

		cfg = newer(consumer.CommitProcessed)
		cfg.InstanceID = "one"
		first := poll(t, open(t, b, cfg), nil)
		waitStable(t, b, "g", 1)
		synctest.Wait() // the member has its assignment
		c = open(t, b, cfg)
		_, err = c.Poll(t.Context())
		require.ErrorIs(t, err, group.ErrUnreleasedInstance)
		require.NoError(t, c.Close())
		require.Equal(t, []record.TopicPartition{tp(0)}, first.Assignment(), "who lives has its instance id")
		first.leave(t)
		require.Len(t, describe(t, b, "g").Members, 1, "it will be back")
		time.Sleep(time.Minute)
		require.Empty(t, describe(t, b, "g").Members, "its session is over")
	})
}

// The coordinator matches the pattern. Kafka's internal topics are not read.
func TestPatternIsMatchedByTheCoordinator(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		cfg := newer(consumer.CommitProcessed)
		cfg.Topics, cfg.TopicPattern = nil, regexp.MustCompile("t.*|__.*")
		m := poll(t, open(t, b, cfg), nil)
		time.Sleep(time.Minute)
		require.Equal(t, "t.*|__.*", describe(t, b, "g").Members[0].Regex)
		require.Equal(t, all(1, "t"), m.Assignment())
		require.NoError(t, b.CreateTopic(t.Context(), "t2", topic.Config{Partitions: 2}))
		time.Sleep(time.Second)
		if wired.On(t) { // with its next heartbeats
			time.Sleep(time.Minute)
		}
		require.Equal(t, append(all(1, "t"), all(2, "t2")...), m.Assignment())
		require.NoError(t, m.Subscribe(t.Context(), "t2"))
		time.Sleep(time.Minute)
		require.Empty(t, describe(t, b, "g").Members[0].Regex)
		require.Equal(t, all(2, "t2"), m.Assignment())
		m.leave(t)
	})
}

// A member that was removed learns of it from its next heartbeat. Its partitions are lost, its
// commits are rejected, and it joins again under its id.
func TestMemberThatWasPutOutLosesEverythingAndJoinsAgain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		var lost [][]record.TopicPartition
		cfg := newer(consumer.CommitManual)
		cfg.OnLost = func(_ context.Context, tps []record.TopicPartition) { lost = append(lost, tps) }
		c := open(t, b, cfg)
		r := read(t, c, 1)[0]
		id := c.Metadata().MemberID
		errs, err := b.Backend().Leave(t.Context(), group.LeaveRequest{Group: "g", Members: []group.LeaveMember{{MemberID: id}}})
		require.NoError(t, errors.Join(append(errs, err)...))
		require.ErrorIs(t, c.Commit(t.Context(), r), consumer.ErrRebalanced)
		time.Sleep(10 * time.Second)
		require.Equal(t, r.Offset, read(t, c, 1)[0].Offset, "it was not committed")
		require.Equal(t, [][]record.TopicPartition{all(2, "t")}, lost)
		require.Equal(t, id, c.Metadata().MemberID)
		require.NoError(t, c.Close())
	})
}

// The group revokes a partition that the member was assigned before and has not taken yet, since
// it was not polled. The member takes it while the answer is under way. Until the member reports
// that it has given the partition up, no other member gets it.
func TestWhatAMemberMayStillTakeItDoesNotGiveUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		fill(t, b, 1, 5)
		var slow atomic.Bool
		held, answered := make(chan struct{}), make(chan struct{})
		link := &overheard{Backend: b, deaf: true, by: func(req group.ConsumerHeartbeatRequest, send func() (group.ConsumerHeartbeatResponse, error)) (group.ConsumerHeartbeatResponse, error) {
			resp, err := send()
			if req.Owned != nil && slow.CompareAndSwap(true, false) {
				close(held)
				<-answered
			}
			return resp, err
		}}
		a := open(t, link, newer(consumer.CommitManual))
		// a has both partitions, is not polled, and its next heartbeat is not due
		time.Sleep(time.Minute + time.Second)
		other := poll(t, open(t, b, newer(consumer.CommitManual)), nil)
		synctest.Wait()
		slow.Store(true)
		a.EnforceRebalance() // the next heartbeat is a full one
		<-held
		ctx, cancel := context.WithCancel(t.Context())
		in, out := make(chan struct{}), make(chan struct{})
		answer, goOn := sync.OnceFunc(func() { close(answered) }), sync.OnceFunc(func() { close(out) })
		t.Cleanup(goOn)
		t.Cleanup(answer)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range a.Records(ctx) {
				select {
				case <-in:
				default:
					close(in)
					<-out
				}
			}
		}()
		<-in // a record is in hand, both partitions are held
		require.Len(t, a.Assignment(), 2)
		time.Sleep(4 * time.Second) // the wait for the answer is about to time out
		require.Empty(t, other.Assignment())
		answer()
		time.Sleep(time.Minute)
		a.EnforceRebalance()
		time.Sleep(time.Minute)
		require.Empty(t, other.Assignment(), "the body is still at work")
		goOn()
		time.Sleep(time.Minute)
		require.Len(t, other.Assignment(), 1)
		require.Len(t, a.Assignment(), 1)
		cancel()
		<-done
		require.NoError(t, a.Close())
		other.leave(t)
	})
}

// A topic that is created again has new partitions, which the coordinator may assign to any
// member. A member that has not learned of this does not take them because of their name.
func TestPartitionsOfATopicCreatedAgainWaitForTheCoordinator(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		var slow atomic.Bool
		held, answered := make(chan struct{}), make(chan struct{})
		link := &overheard{Backend: b, by: func(_ group.ConsumerHeartbeatRequest, send func() (group.ConsumerHeartbeatResponse, error)) (group.ConsumerHeartbeatResponse, error) {
			resp, err := send()
			if slow.CompareAndSwap(true, false) {
				close(held)
				<-answered
			}
			return resp, err
		}}
		m := poll(t, open(t, link, newer(consumer.CommitManual)), nil)
		answer := sync.OnceFunc(func() { close(answered) })
		t.Cleanup(answer)
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 1)
		slow.Store(true)
		<-held
		recreate(t, b, 1, 0)
		time.Sleep(time.Minute)
		require.Empty(t, m.Assignment())
		answer()
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 1)
		m.leave(t)
	})
}

// The answer that moves a member to another epoch is lost: the member continues in the epoch
// before.
func TestMemberOfTheNewerProtocolGoesOnThoughAnAnswerIsLost(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		// set once an answer to a full heartbeat, or to a short one, was lost
		var whole, short atomic.Bool
		link := &overheard{Backend: b, by: func(req group.ConsumerHeartbeatRequest, send func() (group.ConsumerHeartbeatResponse, error)) (group.ConsumerHeartbeatResponse, error) {
			resp, err := send()
			if err == nil && req.MemberEpoch > 0 && resp.MemberEpoch > req.MemberEpoch {
				if kind := map[bool]*atomic.Bool{true: &whole, false: &short}[req.Owned != nil]; kind.CompareAndSwap(false, true) {
					return group.ConsumerHeartbeatResponse{}, errCutOff
				}
			}
			return resp, err
		}}
		cfg := newer(consumer.CommitProcessed)
		cfg.OnLost = func(_ context.Context, tps []record.TopicPartition) { t.Errorf("%v are lost", tps) }
		m := poll(t, open(t, link, cfg), nil)
		time.Sleep(time.Minute)
		other := poll(t, open(t, b, newer(consumer.CommitProcessed)), nil)
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 1)
		require.Len(t, other.Assignment(), 1)
		other.leave(t)
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 2)
		require.True(t, whole.Load() && short.Load())
		m.leave(t)
	})
}

// A static member that does not poll keeps its partitions until its session ends. Then other
// members get them.
func TestStaticMemberThatDoesNotPollIsAwayForItsSession(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		cfg := newer(consumer.CommitManual)
		cfg.InstanceID, cfg.MaxPollInterval = "one", time.Minute
		c := open(t, b, cfg)
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			other := poll(t, open(t, b, newer(consumer.CommitManual)), nil)
			time.Sleep(80 * time.Second)
			require.Len(t, describe(t, b, "g").Members, 2)
			require.Empty(t, other.Assignment())
			require.ErrorIs(t, c.Commit(t.Context(), r), consumer.ErrPollTimeout)
			time.Sleep(time.Minute)
			require.Len(t, other.Assignment(), 1)
			other.leave(t)
			break
		}
		require.NoError(t, c.Close())
	})
}

// A seek counts as long as the member keeps the partition. It ends when the partition is revoked:
// other members may have had it.
func TestASeekStaysWithAPartitionThatStays(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 100)
		fill(t, b, 1, 100)
		c := open(t, b, newer(consumer.CommitManual))
		require.NoError(t, c.Commit(t.Context(), read(t, c, 20)...))
		require.NoError(t, c.Seek(tp(0), 60))
		require.NoError(t, c.Seek(tp(1), 60))
		c.Pause()
		var mu sync.Mutex
		first := map[record.TopicPartition]int64{}
		m := poll(t, c, func(r record.Record) {
			mu.Lock()
			defer mu.Unlock()
			if p := tp(r.Partition); first[p] == 0 {
				first[p] = r.Offset + 1
			}
		})
		before := committed(t, b, "g")
		other := poll(t, open(t, b, newer(consumer.CommitManual)), nil)
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 1)
		stays, moved := m.Assignment()[0], other.Assignment()[0]
		other.leave(t)
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 2)
		m.Resume()
		time.Sleep(time.Minute)
		mu.Lock()
		require.Equal(t, map[record.TopicPartition]int64{stays: 60 + 1, moved: before[moved] + 1}, first)
		mu.Unlock()
		m.leave(t)
	})
}

// Heartbeats and their answers get lost: no record is skipped, and no partition has two owners.
func TestLostHeartbeatsAndAnswersCostNoRecord(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, 6, func(t *testing.T, b *strata.Cluster) {
				var mu sync.Mutex
				rnd := rand.New(rand.NewPCG(seed, 5))
				var calm atomic.Bool
				link := &overheard{Backend: b, by: func(_ group.ConsumerHeartbeatRequest, send func() (group.ConsumerHeartbeatResponse, error)) (group.ConsumerHeartbeatResponse, error) {
					mu.Lock()
					k := rnd.IntN(4)
					mu.Unlock()
					if calm.Load() || k > 1 {
						return send()
					}
					if k == 1 {
						send()
					}
					return group.ConsumerHeartbeatResponse{}, errCutOff
				}}
				l := &ledger{t: t, owner: map[record.TopicPartition]int{}, seen: map[string]int{}}
				members, sent := map[int]*member{}, 0
				for step := range 40 {
					if len(members) < 4 {
						cfg := newer(consumer.CommitProcessed)
						cfg.OnAssigned, cfg.OnRevoked, cfg.OnLost = l.assigned(step), l.gone(step), l.gone(step)
						members[step] = poll(t, open(t, link, cfg), func(r record.Record) { l.process(step, r) })
					} else {
						for id, m := range members {
							m.stop()
							<-m.done
							_ = m.Close() // its leave request may be lost
							delete(members, id)
							break
						}
					}
					for range 5 {
						sendTo(t, b, "t", fmt.Sprint(sent))
						sent++
					}
					time.Sleep(time.Duration(step%7) * time.Second)
				}
				calm.Store(true)
				time.Sleep(5 * time.Minute)
				require.Equal(t, sent, l.count())
				for _, m := range members {
					m.leave(t)
				}
			})
		})
	}
}

// A group notifies its members of changes at once. Members that wait for other members send a
// heartbeat before their next one is due.
func TestMembersInProcessHearOfNewsBeforeTheirNextHeartbeat(t *testing.T) {
	wired.InProcess(t, "a member learns of a change with its next heartbeat")
	bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
		slow := newer(consumer.CommitManual)
		slow.OnRevoked = func(context.Context, []record.TopicPartition) { time.Sleep(50 * time.Millisecond) }
		a := poll(t, open(t, b, slow), nil)
		time.Sleep(time.Minute + time.Millisecond)
		require.Len(t, a.Assignment(), 4)
		c := poll(t, open(t, b, newer(consumer.CommitManual)), nil)
		// a second has passed: the group assigns at most once a second
		time.Sleep(200 * time.Millisecond)
		require.Len(t, a.Assignment(), 2)
		require.Len(t, c.Assignment(), 2)
		d := poll(t, open(t, b, newer(consumer.CommitManual)), nil)
		time.Sleep(1200 * time.Millisecond) // not before that second has passed
		require.Len(t, d.Assignment(), 1)
		time.Sleep(time.Minute)
		c.leave(t)
		d.leave(t)
		time.Sleep(1100 * time.Millisecond)
		require.Len(t, a.Assignment(), 4)
		a.leave(t)
	})
}

// A member that waits for a partition that its owner keeps sends heartbeats at growing intervals.
func TestWhoWaitsLongAsksSeldom(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		in, out := make(chan struct{}), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(out) })
		busy := poll(t, open(t, b, newer(consumer.CommitManual)), func(record.Record) { close(in); <-out })
		t.Cleanup(goOn)
		<-in
		time.Sleep(time.Minute + time.Millisecond)
		var beats atomic.Int64
		link := &overheard{Backend: b, by: func(_ group.ConsumerHeartbeatRequest, send func() (group.ConsumerHeartbeatResponse, error)) (group.ConsumerHeartbeatResponse, error) {
			beats.Add(1)
			return send()
		}}
		waits := poll(t, open(t, link, newer(consumer.CommitManual)), nil)
		time.Sleep(30*time.Second + time.Millisecond)
		require.Empty(t, waits.Assignment())
		require.Less(t, beats.Load(), int64(20))
		goOn()
		time.Sleep(10 * time.Second)
		require.Len(t, waits.Assignment(), 1)
		waits.leave(t)
		busy.leave(t)
	})
}
