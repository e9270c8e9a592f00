package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// sharedAtTwo serves two brokers with replicas of a topic of four records, which broker 1 leads.
// It returns the topic's id. A share group starts from these records.
func sharedAtTwo(t *testing.T) (b *brokers, id [16]byte) {
	cluster, err := strata.Open(strata.Config{Brokers: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.Backend().CreateTopic(t.Context(), "jobs", topic.Config{Partitions: 1, ReplicationFactor: 2, Assignment: [][]int32{{1, 2}}}))
	b = serveAll(t, cluster, Config{})
	for range 4 {
		require.Zero(t, ask[*kmsg.ProduceResponse](t, b.addrs[1], 9, produceOne(9, "jobs", batch("k", "v"))).Topics[0].Partitions[0].ErrorCode)
	}
	require.Zero(t, askAlter(t, b.addrs[1], resourceGroup, "g", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "share.auto.offset.reset", Value: kmsg.StringPtr("earliest")}))
	id, known := cluster.Backend().TopicID("jobs")
	require.True(t, known)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	found := ask[*kmsg.FindCoordinatorResponse](t, b.addrs[1], 6, find).Coordinators[0]
	require.Zero(t, found.ErrorCode)
	one := newSharer(t, b.addrs[found.NodeID], "one", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	return b, id
}

// lead moves the partition to another leader.
func (b *brokers) lead(to int32) {
	b.t.Helper()
	require.NoError(b.t, b.cluster.TransferLeader(b.t.Context(), record.TopicPartition{Topic: "jobs"}, to))
}

// awaitEnd waits until the server has closed a connection: the records acquired there are
// released.
func awaitEnd(t *testing.T, s *Server, of *client) {
	t.Helper()
	port := remotePort(of.nc.LocalAddr())
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			if c.port == port {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
}

func final(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = closeShareSession }

// Checklist row S17: records that a member has acquired at the new leader stay acquired when its
// session at the former leader ends. The session ends in three ways.
func TestASessionAtAFormerLeaderGivesBackNothingOfTheNextOne(t *testing.T) {
	for how, end := range map[string]func(b *brokers, old *sharer){
		"the connection ends": func(b *brokers, old *sharer) {
			old.nc.Close()
			awaitEnd(t, b.Server, old.client)
		},
		"the last fetch": func(_ *brokers, old *sharer) { require.Zero(t, old.fetch(final).ErrorCode) },
		"the last acknowledgement": func(_ *brokers, old *sharer) {
			top, code := old.acknowledge(closeShareSession, said{0, 1, 2})
			require.Equal(t, []Code{0, NotLeaderOrFollower}, []Code{top, code})
		},
	} {
		t.Run(how, func(t *testing.T) {
			b, id := sharedAtTwo(t)
			old := newSharer(t, b.addrs[1], "one", id)
			require.Equal(t, [][3]int64{{0, 3, 1}}, got(old.fetch(nil)))
			b.lead(2)
			one := newSharer(t, b.addrs[2], "one", id)
			require.Equal(t, [][3]int64{{0, 3, 1}}, got(one.fetch(nil)))
			end(b, old)
			require.Empty(t, got(newSharer(t, b.addrs[2], "two", id).fetch(nil)), "they are the other one's for 30 s")
			top, code := one.acknowledge(one.epoch, said{0, 1, 1})
			require.Equal(t, []Code{0, 0}, []Code{top, code})
			require.Zero(t, one.fetch(final).ErrorCode)
			require.Equal(t, [][3]int64{{2, 3, 2}}, got(newSharer(t, b.addrs[2], "three", id).fetch(nil)), "its own session gives them back")
		})
	}
}

// Checklist row S17: the first leader of a partition leads it again, and the session there works
// as with any new leader.
func TestASessionGoesOnWithAPartitionThatComesBack(t *testing.T) {
	b, id := sharedAtTwo(t)
	old := newSharer(t, b.addrs[1], "one", id)
	require.Equal(t, [][3]int64{{0, 3, 1}}, got(old.fetch(nil)))
	b.lead(2)
	away := newSharer(t, b.addrs[2], "one", id)
	require.Equal(t, [][3]int64{{0, 3, 1}}, got(away.fetch(nil)))
	b.lead(1)
	require.Equal(t, [][3]int64{{0, 3, 1}}, got(old.fetch(nil)))
	require.Zero(t, away.fetch(final).ErrorCode)
	_, code := old.acknowledge(old.epoch, said{0, 1, 1})
	require.Zero(t, code)
	require.Zero(t, old.fetch(final).ErrorCode)
	require.Equal(t, [][3]int64{{2, 3, 2}}, got(newSharer(t, b.addrs[1], "two", id).fetch(nil)))
}

// Checklist row S17: a member connects again before its old connection has ended, and keeps its
// records. Only the end of the new session releases them.
func TestAMemberThatConnectsAgainKeepsWhatItHas(t *testing.T) {
	s, addr, id := shareTopic(t, 3)
	old := newSharer(t, addr, "one", id)
	require.Zero(t, old.beat(0, "jobs").ErrorCode)
	require.Equal(t, [][3]int64{{0, 1, 1}}, got(old.fetch(func(r *kmsg.ShareFetchRequest) { r.MaxRecords = 2 })))
	one := newSharer(t, addr, "one", id)
	require.Equal(t, [][3]int64{{2, 2, 1}}, got(one.fetch(nil)))
	old.nc.Close()
	awaitEnd(t, s, old.client)
	two := newSharer(t, addr, "two", id)
	require.Empty(t, got(two.fetch(nil)))
	_, code := one.acknowledge(one.epoch, said{0, 0, 1}, said{2, 2, 1})
	require.Zero(t, code, "also what it was handed on the old connection")
	require.Zero(t, one.fetch(final).ErrorCode)
	require.Equal(t, [][3]int64{{1, 1, 2}}, got(two.fetch(nil)))
}

// Checklist row S17: a fetch that waits while its session ends acquires nothing.
func TestAFetchWhoseSessionEndsAcquiresNothing(t *testing.T) {
	s, addr, id := shareTopic(t, 0)
	one := newSharer(t, addr, "one", id)
	require.Zero(t, one.beat(0, "jobs").ErrorCode)
	require.Empty(t, got(one.fetch(nil)))
	answer := make(chan *kmsg.ShareFetchResponse, 1)
	go func() {
		answer <- one.fetch(func(r *kmsg.ShareFetchRequest) { r.MaxWaitMillis = 20_000 })
	}()
	key := shareSessionKey{"g", "one"}
	shares := &s.brokers[1].shares
	require.Eventually(t, func() bool {
		shares.mu.Lock()
		defer shares.mu.Unlock()
		return shares.sessions[key].epoch == 2
	}, 10*time.Second, time.Millisecond)
	require.Zero(t, newSharer(t, addr, "one", id).fetch(final).ErrorCode)
	require.Zero(t, ask[*kmsg.ProduceResponse](t, addr, 9, produceOne(9, "jobs", batch("k", "v"))).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, ShareSessionNotFound, Code((<-answer).ErrorCode))
	require.Equal(t, [][3]int64{{0, 0, 1}}, got(newSharer(t, addr, "two", id).fetch(nil)), "it was handed to nobody")
}

func TestShareSessionsHaveBoundedPartitionsAndLeaveRoomForOthers(t *testing.T) {
	server, _ := serve(t, Config{})
	greedy, modest := &conn{s: server, ownedBy: "greedy"}, &conn{s: server, ownedBy: "modest"}
	var s shareSessions
	open := func(c *conn, member string, parts int) Code {
		req := kmsg.NewPtrShareFetchRequest()
		req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: [16]byte{1}}}
		for p := range parts {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: int32(p)})
		}
		_, code := s.fetch(c, shareSessionKey{"g", member}, req)
		return code
	}
	for i := range maxOwnShareSessions {
		require.Zero(t, open(greedy, fmt.Sprint(i), 1))
	}
	require.Equal(t, ShareSessionLimitReached, open(greedy, "more", 1))
	require.Zero(t, open(greedy, "0", 2), "a session takes the place of another one of its member")
	require.Zero(t, open(modest, "modest", 1))
	require.Equal(t, ShareSessionLimitReached, open(modest, "large", maxShareParts))
	require.Equal(t, maxOwnShareSessions+2, s.parts)
	s.of(greedy)
	require.Equal(t, 1, s.parts)
	require.Equal(t, ShareSessionLimitReached, open(modest, "large", maxOwnShareParts))
	require.Zero(t, open(modest, "large", maxOwnShareParts-1))
	require.Equal(t, ShareSessionLimitReached, open(modest, "one more", 1))
	require.Zero(t, open(greedy, "now modest", maxShareParts-maxOwnShareParts), "another principal has room")
	require.Equal(t, ShareSessionLimitReached, open(greedy, "one more", 1))
}
