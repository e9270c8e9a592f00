package kafka

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// carriedThrough are the APIs whose handlers finish their work although the client has closed its
// connection. Their requests name one thing, make one call of a lower layer, which gets the
// context, or must be applied as a whole.
var carriedThrough = []Key{
	Produce, OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ListGroups, SaslHandshake, ApiVersions, InitProducerID,
	AddOffsetsToTxn, EndTxn, WriteTxnMarkers, TxnOffsetCommit, DescribeACLs, CreateACLs, DeleteACLs, SaslAuthenticate,
	CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken,
	AlterPartitionReassignments, ListPartitionReassignments, OffsetDelete, DescribeClientQuotas, AlterClientQuotas,
	DescribeUserScramCredentials, AlterUserScramCredentials, UpdateFeatures, DescribeCluster, ListTransactions, ElectLeaders,
	ConsumerGroupHeartbeat, GetTelemetrySubscriptions, PushTelemetry, ListConfigResources, ShareGroupHeartbeat, ShareFetch, ShareAcknowledge,
	StreamsGroupHeartbeat, AlterShareGroupOffsets, DeleteShareGroupOffsets,
}

// answered returns the size of the answer that the handler of an API makes, or 0 without an
// answer. The client is connected or has gone.
func answered(s *Server, a *api, gone bool) int {
	near, far := net.Pipe()
	defer far.Close()
	s.mu.Lock()
	broker := s.brokers[s.cluster.Controller()]
	s.mu.Unlock()
	c := newConn(s, &listener{broker: broker}, near)
	defer c.transport.Close()
	if gone {
		c.transport.Close()
	}
	e := newExecution(c, nil, a, filledRequest(a.key, a.max), "test")
	if r, ok := e.req.(*kmsg.DescribeLogDirsRequest); ok {
		r.Topics = nil // all topics
	}
	var resp kmsg.Response
	if a.try != nil {
		resp, _ = a.try(&e.call, e.req)
	} else {
		resp = a.serve(&e.call, e.req)
	}
	if resp == nil {
		return 0
	}
	return len(resp.AppendTo(nil))
}

func TestWorkOnManyNamesEndsWhenTheClientHasGone(t *testing.T) {
	s, addr := hostileServer(t, Limits{})
	alive(t, addr)
	through := map[Key]bool{}
	for _, k := range carriedThrough {
		through[k] = true
	}
	for i := range apis {
		a := &apis[i]
		if through[a.key] || a.start != nil {
			continue
		}
		t.Run(a.key.String(), func(t *testing.T) {
			require.Less(t, answered(s, a, true), answered(s, a, false))
		})
	}
}

// The server does not read from the connection while a second request waits for the first answer.
func TestARequestEndsWhenItsClientHasGoneBehindAnotherOne(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a system that reports the end of a client behind unread requests")
	}
	s, addr := serve(t, Config{VersionCaps: map[int16]int16{int16(DescribeConfigs): 3, int16(ListGroups): 4}}) // with a table of its own
	var goes, ended chan struct{}
	endless := func(c *call, _ kmsg.Request) kmsg.Response {
		defer close(ended)
		close(goes)
		for range each(c, make([]struct{}, 1<<40)) {
			runtime.Gosched()
		}
		return nil
	}
	for _, k := range []Key{DescribeConfigs, ListGroups} { // only ListGroups has waits
		t.Run(k.String(), func(t *testing.T) {
			goes, ended = make(chan struct{}), make(chan struct{})
			s.apis[int16(k)].serve = endless
			c := dial(t, addr)
			c.send(filledRequest(k, 1))
			c.send(kmsg.NewPtrMetadataRequest())
			<-goes
			c.nc.Close()
			<-ended
		})
	}
}

func TestFewLargeRequestsAreServedAtATime(t *testing.T) {
	s, addr := serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 4 << 20}, VersionCaps: map[int16]int16{int16(ListGroups): 4}}) // with a table of its own
	var under, most, ended atomic.Int64
	goes := make(chan struct{})
	s.apis[int16(DescribeGroups)].serve = func(_ *call, req kmsg.Request) kmsg.Response {
		most.Store(max(most.Load(), under.Add(1)))
		<-goes
		under.Add(-1)
		ended.Add(1)
		return req.ResponseKind()
	}
	large := kmsg.NewPtrDescribeGroupsRequest()
	large.Groups = []string{strings.Repeat("g", 30_000)} // 1.4 MB of work
	var clients []*client
	for range 10 {
		c := dial(t, addr)
		c.send(large)
		clients = append(clients, c)
	}
	small := dial(t, addr) // is served meanwhile
	for range clients {
		small.ask(kmsg.NewPtrMetadataRequest())
		goes <- struct{}{}
	}
	for _, c := range clients {
		c.receive(large, 1)
	}
	require.LessOrEqual(t, most.Load(), int64(2))
	require.EqualValues(t, 10, ended.Load())
	require.Eventually(t, func() bool { return whole(s) }, 10*time.Second, time.Millisecond)
}

func TestMetadataOfManyTopicsIsMadeForFewClientsAtATime(t *testing.T) {
	s, addr := serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 4 << 20}, VersionCaps: map[int16]int16{int16(ListGroups): 4}}) // with a table of its own
	const topics = 300
	for i := range topics {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), fmt.Sprint("t", i), topic.Config{}))
	}
	var under, most atomic.Int64
	goes := make(chan struct{})
	serve := s.apis[int16(Metadata)].serve
	s.apis[int16(Metadata)].serve = func(c *call, req kmsg.Request) kmsg.Response {
		if req.(*kmsg.MetadataRequest).Topics == nil {
			most.Store(max(most.Load(), under.Add(1)))
			<-goes
			under.Add(-1)
		}
		return serve(c, req)
	}
	all, one := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest()
	all.SetVersion(9)
	one.SetVersion(9)
	one.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t1")}}
	var clients []*client
	for range 40 {
		c := dial(t, addr)
		c.send(all)
		clients = append(clients, c)
	}
	small := dial(t, addr) // is served meanwhile
	for range clients {
		small.ask(one)
		goes <- struct{}{}
	}
	for _, c := range clients {
		require.Equal(t, topics, len(c.receive(all, 1).(*kmsg.MetadataResponse).Topics))
	}
	fit := s.decoding.Size() / (topics * (metadataTopicBuildBytes + metadataPartitionBuildBytes))
	require.LessOrEqual(t, most.Load(), int64(max(fit, runtime.GOMAXPROCS(0))))
	require.Less(t, fit, len(clients)/2)
	require.Eventually(t, func() bool { return whole(s) }, 10*time.Second, time.Millisecond)
}

// The memory of the first answer is charged too, although there is no earlier answer to estimate
// its size by.
func TestAnswersToMetadataThatNobodyReadsAreCharged(t *testing.T) {
	s, addr := serve(t, Config{VersionCaps: map[int16]int16{int16(ListGroups): 4}}) // with a table of its own
	for i := range 300 {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), fmt.Sprint("t", i), topic.Config{}))
	}
	serve := s.apis[int16(Metadata)].serve
	charged := make(chan int, 1)
	s.apis[int16(Metadata)].serve = func(c *call, req kmsg.Request) kmsg.Response {
		charged <- c.charged
		return serve(c, req)
	}
	all := kmsg.NewPtrMetadataRequest()
	all.SetVersion(9)
	c := dial(t, addr)
	size := len(c.ask(all).AppendTo(nil))
	require.Greater(t, size, 8<<10)
	require.GreaterOrEqual(t, <-charged, buildFactor*size)
	require.Eventually(t, func() bool { return whole(s) }, 10*time.Second, time.Millisecond)
}
