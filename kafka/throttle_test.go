package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

// everybody sets the default quotas of users.
func everybody(t *testing.T, s *Server, values ...replication.QuotaValue) {
	t.Helper()
	refused, err := s.cluster.AlterClientQuotas(t.Context(), replication.QuotaChange{Entity: replication.QuotaEntity{User: clientquota.Default}, Changes: values})
	require.NoError(t, err)
	require.Empty(t, refused)
}

func frameBytes(req kmsg.Request) int {
	return len(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 1)) - 4
}

// A producer above its quota is answered at once. Its next request is served after the throttle
// time, and other clients are served meanwhile.
func TestProducersBeyondTheirQuotaWait(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c, other := dialGroups(t, s), dialGroups(t, s)
		req := appended("t", 0, "value")
		size := frameBytes(req)
		limit := float64((size + 4) / 5)
		everybody(t, s.Server, replication.QuotaValue{Key: replication.ProducerByteRate, Value: limit})
		start := time.Now()
		var wait int32
		for i := range 4 {
			rate := float64((i+1)*size) / 10
			want := (rate - limit) / limit * 10_000
			wait = c.ask(req).(*kmsg.ProduceResponse).ThrottleMillis
			if i < 2 {
				require.Zero(t, wait)
			} else {
				require.InDelta(t, want, wait, 1)
				require.Zero(t, time.Since(start), "it is told at once")
				break
			}
		}
		require.Greater(t, wait, int32(4000))
		next := kmsg.NewPtrMetadataRequest()
		next.Version = 9
		other.ask(next)
		require.Zero(t, time.Since(start))
		require.Zero(t, c.ask(next).(*kmsg.MetadataResponse).ThrottleMillis)
		require.Equal(t, time.Duration(wait)*time.Millisecond, time.Since(start))
		start = time.Now()
		req.Acks = 0
		for range 4 {
			c.send(req)
		}
		c.ask(next)
		require.Greater(t, time.Since(start), 10*time.Second, "without acknowledgements too")
	})
}

// A consumer above its quota gets an empty answer, and the same records later.
func TestConsumersBeyondTheirQuotaGetNothing(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := dialGroups(t, s)
		c.ask(appended("t", 0, "value"))
		got := c.client.fetch(want(11, "t", 0))
		size := len(got.Topics[0].Partitions[0].RecordBatches)
		require.NotZero(t, size)
		everybody(t, s.Server, replication.QuotaValue{Key: replication.ConsumerByteRate, Value: float64(size / 8)})
		whole := want(11, "t", 0)
		whole.SessionEpoch = 0
		first := c.client.fetch(whole)
		require.Zero(t, first.ThrottleMillis)
		require.NotZero(t, first.SessionID)
		require.Equal(t, []int32{0}, told(first))
		start := time.Now()
		begun := c.client.fetch(whole)
		require.Positive(t, begun.ThrottleMillis)
		require.Zero(t, begun.SessionID, "a session that is not begun")
		require.Empty(t, begun.Topics)
		require.Zero(t, begun.ErrorCode)
		session := want(11, "t")
		session.SessionID, session.SessionEpoch, session.MaxWaitMillis, session.MinBytes = first.SessionID, 1, 1000, 1
		held := c.client.fetch(session)
		require.GreaterOrEqual(t, time.Since(start), time.Duration(begun.ThrottleMillis)*time.Millisecond)
		require.Positive(t, held.ThrottleMillis)
		require.Equal(t, first.SessionID, held.SessionID)
		require.Empty(t, held.Topics)
		for session.SessionEpoch = 2; ; session.SessionEpoch++ {
			require.Less(t, session.SessionEpoch, int32(50))
			if held = c.client.fetch(session); held.ThrottleMillis == 0 {
				break
			}
		}
		require.Less(t, time.Since(start), 15*time.Second, "what was left out does not count")
		require.Equal(t, []int32{0}, told(held), "what was left out is there")
		require.Len(t, held.Topics[0].Partitions[0].RecordBatches, size)

		follower := want(11, "t", 0)
		follower.ReplicaID = s.cluster.Controller()
		for range 5 {
			require.Zero(t, c.client.fetch(follower).ThrottleMillis)
		}
	})
}

func TestChangesOfPartitionsBeyondTheQuotaAreRefusedOrWait(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		everybody(t, s.Server, replication.QuotaValue{Key: replication.ControllerMutationRate, Value: 1})
		create := func(version int16, name string, partitions int32) (Code, int32) {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.Version, req.Topics, req.TimeoutMillis = version, []kmsg.CreateTopicsRequestTopic{newTopic(name, partitions, 1)}, 10_000
			resp := dialGroups(t, s).ask(req).(*kmsg.CreateTopicsResponse)
			if resp.Topics[0].ErrorCode != 0 {
				require.Nil(t, resp.Topics[0].ErrorMessage)
			}
			return Code(resp.Topics[0].ErrorCode), resp.ThrottleMillis
		}
		expect := func(code Code, wait int32, gotCode Code, gotWait int32) {
			t.Helper()
			require.Equal(t, code, gotCode)
			require.Equal(t, wait, gotWait)
		}
		code, wait := create(7, "a", 16)
		expect(0, 0, code, wait)
		code, wait = create(6, "b", 1)
		expect(ThrottlingQuotaExceeded, 5000, code, wait)
		code, wait = create(5, "c", 2)
		expect(0, 7000, code, wait)
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 17}}
		grow.Version, grow.TimeoutMillis = 3, 10_000
		grown := dialGroups(t, s).ask(grow).(*kmsg.CreatePartitionsResponse)
		expect(ThrottlingQuotaExceeded, 7000, Code(grown.Topics[0].ErrorCode), grown.ThrottleMillis)
		grow.Version = 2
		grown = dialGroups(t, s).ask(grow).(*kmsg.CreatePartitionsResponse)
		expect(0, 8000, Code(grown.Topics[0].ErrorCode), grown.ThrottleMillis)
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.Version, remove.TimeoutMillis, remove.TopicNames = 5, 10_000, []string{"a"}
		removed := dialGroups(t, s).ask(remove).(*kmsg.DeleteTopicsResponse)
		expect(ThrottlingQuotaExceeded, 8000, Code(removed.Topics[0].ErrorCode), removed.ThrottleMillis)
		time.Sleep(8 * time.Second)
		removed = dialGroups(t, s).ask(remove).(*kmsg.DeleteTopicsResponse)
		expect(0, 0, Code(removed.Topics[0].ErrorCode), removed.ThrottleMillis)
		remove.Version, remove.TopicNames = 4, []string{"c"}
		removed = dialGroups(t, s).ask(remove).(*kmsg.DeleteTopicsResponse)
		expect(0, 19_000, Code(removed.Topics[0].ErrorCode), removed.ThrottleMillis)
	})
}

// throttling is an interceptor that throttles the client of each produce request, by its durations
// in turn.
type throttling []time.Duration

func (th *throttling) Before(x *Exchange) (a Action) {
	if Key(x.Key) == Produce {
		a.ThrottleMs, *th = int32((*th)[0].Milliseconds()), (*th)[1:]
	}
	return a
}

func (*throttling) After(*Exchange) {}

// Three requests of a connection are in flight. The throttle times of the last two end before that
// of the first, and do not shorten it.
func TestShorterThrottleDoesNotEndALongerOne(t *testing.T) {
	th, disk := throttling{10 * time.Second, 100 * time.Millisecond, time.Second}, vfs.Mem()
	inBubbleOf(t, strata.Config{FS: disk, Dir: "data"}, Config{Intercept: &th}, func(t *testing.T, s *groupServer) {
		c := dialGroups(t, s)
		disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Delay: time.Second, Times: vfs.Always})
		start := time.Now()
		req := appended("t", 0, "value")
		var sent []int32
		for range 3 {
			sent = append(sent, c.send(req))
			synctest.Wait()
		}
		for i, wait := range []int32{10_000, 100, 1000} {
			require.Equal(t, wait, c.receive(req, sent[i]).(*kmsg.ProduceResponse).ThrottleMillis)
			require.Equal(t, time.Duration(min(i+1, 2))*time.Second, time.Since(start))
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version = 9
		c.ask(metadata)
		require.Equal(t, 11*time.Second, time.Since(start))
	})
}

// The processing time of requests is real time, so the test cannot predict it.
func TestRequestsBeyondTheirQuotaWaitAtMostASecond(t *testing.T) {
	s, addr := serve(t, Config{})
	c := dial(t, addr)
	everybody(t, s, replication.QuotaValue{Key: replication.RequestPercentage, Value: 1e-9})
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	require.EqualValues(t, 1000, c.ask(req).(*kmsg.MetadataResponse).ThrottleMillis)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	require.True(t, exempt(handshake))
}

// Without quotas a request costs one check.
func TestWithoutQuotasNothingIsMeasured(t *testing.T) {
	s, addr := serve(t, Config{})
	c := dial(t, addr)
	c.ask(kmsg.NewPtrMetadataRequest())
	e := &execution{call: call{s: s}, req: kmsg.NewPtrMetadataRequest()}
	require.Zero(t, testing.AllocsPerRun(100, e.meter))
	require.Nil(t, e.quotas)
	require.True(t, e.began.IsZero())
}

// An address makes too many connections. The excess ones are closed a little later, without an
// answer; the others stay.
func TestConnectionsBeyondTheQuotaOfAnAddressAreClosedALittleLater(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		first := dialGroups(t, s)
		require.True(t, serves(first.client)) // it was accepted before there are quotas
		_, err := s.cluster.AlterClientQuotas(t.Context(), replication.QuotaChange{Entity: replication.QuotaEntity{IP: clientquota.Default}, Changes: []replication.QuotaValue{{Key: replication.ConnectionCreationRate, Value: 1}}})
		require.NoError(t, err)
		for range 10 {
			require.True(t, serves(dialGroups(t, s).client))
		}
		start := time.Now()
		late := dialGroups(t, s)
		late.send(kmsg.NewPtrApiVersionsRequest())
		late.closed()
		require.Equal(t, time.Second, time.Since(start))
		require.True(t, serves(first.client))
		last := dialGroups(t, s)
		synctest.Wait()
		start = time.Now()
		require.NoError(t, s.Shutdown(t.Context()))
		last.closed()
		require.Zero(t, time.Since(start), "shutting down waits for none of them")
	})
}

// If many connections are open, excess ones are closed at once.
func TestConnectionsBeyondTheQuotaAreClosedAtOnceInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{Limits: Limits{Connections: 20}}, nil)
		_, err := n.cluster.AlterClientQuotas(t.Context(), replication.QuotaChange{Entity: replication.QuotaEntity{IP: clientquota.Default}, Changes: []replication.QuotaValue{{Key: replication.ConnectionCreationRate, Value: 1}}})
		require.NoError(t, err)
		for range 10 {
			require.True(t, serves(n.dial()))
		}
		start := time.Now()
		n.dial().closed()
		require.Zero(t, time.Since(start))
	})
}
