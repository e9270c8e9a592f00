package kafka

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// inSession sets the session id and epoch of a fetch.
func inSession(req *kmsg.FetchRequest, id, epoch int32) *kmsg.FetchRequest {
	req.SessionID, req.SessionEpoch = id, epoch
	return req
}

func TestFetchSessionTellsOnlyWhatIsNew(t *testing.T) {
	s, c := fetchServer(t)
	resp := c.fetch(inSession(want(12, "orders", 0, 0, 0), 0, 0))
	id := resp.SessionID
	require.NotZero(t, id)
	require.Equal(t, []int32{0, 1, 2}, told(resp), "a full answer")
	require.Empty(t, told(c.fetch(inSession(want(12, "orders"), id, 1))), "nothing is new")

	c.ask(appended("orders", 1, "one"))
	resp = c.fetch(inSession(want(12, "orders"), id, 2))
	require.Equal(t, []int32{1}, told(resp), "data")
	require.Equal(t, id, resp.SessionID)
	require.Equal(t, []int32{1}, told(c.fetch(inSession(want(12, "orders"), id, 3))), "the same data: the client has not moved on")
	moved := want(12, "orders", 0, 1)
	moved.Topics[0].Partitions = moved.Topics[0].Partitions[1:]
	require.Empty(t, told(c.fetch(inSession(moved, id, 4))), "it has")

	_, err := s.cluster.DeleteRecords(t.Context(), map[record.TopicPartition]int64{{Topic: "orders", Partition: 1}: 1})
	require.NoError(t, err)
	require.Equal(t, []int32{1}, told(c.fetch(inSession(want(12, "orders"), id, 5))), "the log start moved")
	require.Empty(t, told(c.fetch(inSession(want(12, "orders"), id, 6))))
}

func TestFetchSessionRepeatsErrorsAtEveryEpoch(t *testing.T) {
	_, c := fetchServer(t)
	resp := c.fetch(inSession(want(12, "orders", 0, 7), 0, 0))
	for epoch := int32(1); epoch < 4; epoch++ {
		again := c.fetch(inSession(want(12, "orders"), resp.SessionID, epoch))
		require.Equal(t, []int32{1}, told(again))
		require.Equal(t, OffsetOutOfRange, Code(again.Topics[0].Partitions[0].ErrorCode))
	}
}

func TestFetchSessionTakesInAndForgetsPartitions(t *testing.T) {
	_, c := fetchServer(t)
	id := c.fetch(inSession(want(12, "orders", 0), 0, 0)).SessionID
	require.Equal(t, []int32{1}, told(c.fetch(inSession(want(12, "orders", 0, 0), id, 1))), "a new one is told once, even without data")
	require.Empty(t, told(c.fetch(inSession(want(12, "orders"), id, 2))))

	forget := want(12, "orders")
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "orders", Partitions: []int32{0}}}
	c.fetch(inSession(forget, id, 3))
	c.ask(appended("orders", 0, "one"))
	require.Empty(t, told(c.fetch(inSession(want(12, "orders"), id, 4))))

	forget.ForgottenTopics[0].Partitions = []int32{1}
	require.Zero(t, c.fetch(inSession(forget, id, 5)).SessionID, "an empty session is closed")
	require.Equal(t, FetchSessionIDNotFound, Code(c.fetch(inSession(want(12, "orders"), id, 6)).ErrorCode))
}

func TestFetchSessionRefusesWrongEpochsAndIDs(t *testing.T) {
	_, c := fetchServer(t)
	id := c.fetch(inSession(want(12, "orders", 0), 0, 0)).SessionID
	for _, tc := range []struct {
		version   int16
		id, epoch int32
		want      Code
	}{
		{12, id, 2, InvalidFetchSessionEpoch},
		{12, id + 1, 1, FetchSessionIDNotFound},
		{12, 0, 1, FetchSessionIDNotFound},
		{13, id, 1, FetchSessionTopicIDError},
	} {
		resp := c.fetch(inSession(want(tc.version, "orders"), tc.id, tc.epoch))
		require.Equal(t, tc.want, Code(resp.ErrorCode), tc)
		require.Zero(t, resp.SessionID)
	}
	resp := c.fetch(inSession(want(12, "orders"), id, 1))
	require.Zero(t, resp.ErrorCode, "it lives on at its old epoch")
	other := dial(t, c.nc.RemoteAddr().String())
	require.Zero(t, other.fetch(inSession(want(12, "orders"), id, 2)).ErrorCode, "on another connection too")

	require.Zero(t, c.fetch(inSession(want(12, "orders", 0), id, -1)).SessionID, "the client closes it")
	require.Equal(t, FetchSessionIDNotFound, Code(c.fetch(inSession(want(12, "orders"), id, 3)).ErrorCode))
	first := c.fetch(inSession(want(12, "orders", 0), 0, 0)).SessionID
	second := c.fetch(inSession(want(12, "orders", 0), first, 0)).SessionID
	require.NotEqual(t, first, second)
	require.Equal(t, FetchSessionIDNotFound, Code(c.fetch(inSession(want(12, "orders"), first, 1)).ErrorCode), "replaced")
}

func TestFetchSessionReadsServedPartitionsLastNextTime(t *testing.T) {
	_, c := fetchServer(t)
	for p := range int32(3) {
		c.ask(appended("orders", p, "one"))
	}
	small := func(req *kmsg.FetchRequest) *kmsg.FetchRequest {
		req.MaxBytes = 1 // one batch for each answer
		return req
	}
	withData := func(resp *kmsg.FetchResponse) (found []int32) {
		for _, p := range resp.Topics[0].Partitions {
			if len(p.RecordBatches) > 0 {
				found = append(found, p.Partition)
			}
		}
		return found
	}
	resp := c.fetch(small(inSession(want(12, "orders", 0, 0, 0), 0, 0)))
	seen := map[int32]bool{}
	for epoch := int32(1); epoch <= 3; epoch++ {
		got := withData(resp)
		require.Len(t, got, 1)
		seen[got[0]] = true
		resp = c.fetch(small(inSession(want(12, "orders"), resp.SessionID, epoch)))
	}
	require.Len(t, seen, 3, "none starves")
}

func TestFetchSessionEpochsGoOnAtOneAfterTheLast(t *testing.T) {
	s, c := fetchServer(t)
	id := c.fetch(inSession(want(12, "orders", 0), 0, 0)).SessionID
	s.mu.Lock()
	sessions := s.brokers[s.cluster.Controller()].fetches
	s.mu.Unlock()
	sessions.find(id, fetchClient{}).epoch = math.MaxInt32
	require.Zero(t, c.fetch(inSession(want(12, "orders"), id, math.MaxInt32)).ErrorCode)
	require.Zero(t, c.fetch(inSession(want(12, "orders"), id, 1)).ErrorCode)
}

func TestFetchSessionsMakeRoomOnlyWhenUnusedForTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := newSessionCache(2)
		parts := wanted(want(12, "orders", 0), nil)
		a, b := cache.create(parts, false, fetchClient{}), cache.create(parts, false, fetchClient{})
		require.Nil(t, cache.create(parts, false, fetchClient{}), "the cache is full")
		time.Sleep(2*time.Minute + time.Second)
		require.Same(t, a, cache.find(a.id, fetchClient{}))
		c := cache.create(parts, false, fetchClient{})
		require.NotNil(t, c)
		require.Nil(t, cache.find(b.id, fetchClient{}), "b was not used")
		require.NotNil(t, cache.find(a.id, fetchClient{}))
		require.Nil(t, cache.create(parts, false, fetchClient{}))
	})
}

// A session keeps the names of its topics, so it distinguishes a deleted topic from one created
// again.
func TestFetchSessionTellsDeletedTopicsFromThoseMadeAgain(t *testing.T) {
	s, c := fetchServer(t)
	code := func(resp *kmsg.FetchResponse) Code {
		t.Helper()
		require.Zero(t, resp.ErrorCode)
		require.Len(t, resp.Topics, 1)
		require.Empty(t, resp.Topics[0].Partitions[0].RecordBatches)
		return Code(resp.Topics[0].Partitions[0].ErrorCode)
	}
	byID := func(id topic.ID, at ...int64) *kmsg.FetchRequest {
		req := want(13, "", at...)
		for i := range req.Topics {
			req.Topics[i].TopicID = id
		}
		return req
	}
	old, ok := s.cluster.TopicID("orders")
	require.True(t, ok)
	session := c.fetch(inSession(byID(old, 0), 0, 0)).SessionID
	names := c.fetch(inSession(want(12, "orders", 0), 0, 0)).SessionID
	require.NoError(t, s.cluster.DeleteTopic(t.Context(), "orders"))
	require.Equal(t, UnknownTopicOrPartition, code(c.fetch(inSession(byID(old), session, 1))))
	require.Equal(t, UnknownTopicOrPartition, code(c.fetch(inSession(byID(old, 0), session, 2))), "asked for again by the same id")
	require.Equal(t, UnknownTopicOrPartition, code(c.fetch(inSession(want(12, "orders"), names, 1))))
	require.Equal(t, UnknownTopicID, code(c.fetch(inSession(byID(old, 0), 0, 0))), "a new session never knew its name")
	require.Equal(t, UnknownTopicID, code(c.fetch(inSession(byID(old, 0), 0, -1))))

	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	c.ask(appended("orders", 0, "one"))
	require.Equal(t, InconsistentTopicID, code(c.fetch(inSession(byID(old), session, 3))))
	require.Equal(t, InconsistentTopicID, code(c.fetch(inSession(byID(old), session, 4))), "as long as it is asked for")
	require.Equal(t, UnknownTopicID, code(c.fetch(inSession(byID(old, 0), 0, -1))))
}

// While a long poll waits, its topic is deleted and another topic gets the name. The poll must not
// return records of the new topic, nor report that its offset is out of range.
func TestFetchByIDNeverReadsAnotherTopicOfThatName(t *testing.T) {
	for name, records := range map[string]int{"empty": 0, "shorter": 1, "longer": 3} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{NoAutoCreate: true}, func(t *testing.T, s *groupServer) {
				c := dialGroups(t, s).client
				p, err := producer.New(s.cluster, producer.Config{})
				require.NoError(t, err)
				write := func(n int) {
					t.Helper()
					require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3}))
					for range n {
						_, err := p.Send(t.Context(), record.String("orders", "", "one").To(0))
						require.NoError(t, err)
					}
				}
				write(2)
				old, _ := s.cluster.TopicID("orders")
				req := want(13, "", 2)
				req.Topics[0].TopicID, req.MaxWaitMillis, req.MinBytes = old, 60_000, 1
				answered := make(chan *kmsg.FetchResponse, 1)
				defer c.nc.Close()
				go func() { answered <- c.fetch(inSession(req, 0, -1)) }()
				synctest.Wait() // the name is looked up, and the poll waits
				// Without memory to read into, the poll cannot look again before the other topic
				// exists.
				taken := 0
				for n := 1; n > 0; taken += n { // all except the memory of the request itself
					n = s.memory.Budget.TryTake(s.limits.InFlightBytes, 1, nil)
				}
				require.NoError(t, s.cluster.DeleteTopic(t.Context(), "orders"))
				write(records)
				require.NoError(t, p.Close())
				s.memory.Budget.Give(taken, nil)
				got := (<-answered).Topics[0].Partitions[0]
				require.Empty(t, got.RecordBatches)
				require.Equal(t, InconsistentTopicID, Code(got.ErrorCode))
				require.EqualValues(t, -1, got.HighWatermark)
			})
		})
	}
}

func TestFetchSessionsHaveBoundedPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := func(n int) (list []*fetchPart) {
			for i := range n {
				list = append(list, &fetchPart{tp: record.TopicPartition{Topic: "t", Partition: int32(i)}})
			}
			return list
		}
		s := newSessionCache(maxFetchSessions)
		require.Nil(t, s.create(parts(maxSessionParts+1), false, fetchClient{}), "one session")
		first := s.create(parts(maxSessionParts), false, fetchClient{})
		require.NotNil(t, first)
		for range maxSessionsParts/maxSessionParts - 1 {
			require.NotNil(t, s.create(parts(maxSessionParts), false, fetchClient{}))
		}
		require.Nil(t, s.create(parts(1), false, fetchClient{}), "all sessions")

		more := want(12, "t", 0)
		for i := range 10 {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition = int32(maxSessionParts + i)
			more.Topics[0].Partitions = append(more.Topics[0].Partitions, p)
		}
		require.Equal(t, FetchSessionIDNotFound, s.open(&fetching{}, inSession(more, first.id, 1), nil), "it grows")
		require.Nil(t, s.find(first.id, fetchClient{}))
		require.NotNil(t, s.create(parts(maxSessionParts), false, fetchClient{}), "its partitions are free")
		time.Sleep(unusedFetchSession + time.Second)
		require.NotNil(t, s.create(parts(2), false, fetchClient{}), "unused sessions make room")
		require.Equal(t, maxSessionsParts-maxSessionParts+2, s.parts)
	})
}

func TestFetchSessionsOfConnectionsThatHaveEndedMakeRoomFirst(t *testing.T) {
	parts := func() []*fetchPart { return []*fetchPart{{}} }
	s := newSessionCache(3)
	one, two := fetchClient{conn: &conn{}}, fetchClient{conn: &conn{}}
	first, second, third := s.create(parts(), false, one), s.create(parts(), false, two), s.create(parts(), false, one)
	require.Nil(t, s.create(parts(), false, one))
	s.abandon(two.conn)
	require.Same(t, second, s.find(second.id, two), "its client may connect again")
	s.abandon(two.conn)
	require.NotNil(t, s.create(parts(), false, one))
	require.Nil(t, s.find(second.id, two))
	require.Same(t, first, s.find(first.id, one))
	require.Same(t, third, s.find(third.id, one))
}

func TestOnePrincipalDoesNotKeepAllFetchSessions(t *testing.T) {
	parts := func() []*fetchPart { return []*fetchPart{{}} }
	s := newSessionCache(4)
	greedy, modest, third := fetchClient{owner: "greedy"}, fetchClient{owner: "modest"}, fetchClient{owner: "third"}
	var all []*fetchSession
	for range 4 {
		all = append(all, s.create(parts(), false, greedy))
	}
	require.Nil(t, s.create(parts(), false, greedy))
	require.NotNil(t, s.create(parts(), false, modest))
	require.NotNil(t, s.create(parts(), false, third))
	require.Nil(t, s.create(parts(), false, third), "greedy has half, and no more")
	require.Nil(t, s.find(all[0].id, greedy))
	require.Nil(t, s.find(all[1].id, greedy))
	require.NotNil(t, s.find(all[2].id, greedy))
	for id := range s.sessions {
		s.remove(id)
	}
	require.Empty(t, s.owners)
	require.Zero(t, s.parts)
}
