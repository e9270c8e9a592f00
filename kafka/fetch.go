package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	maxFetchBytes  = 55 << 20 // maximum for a response. Kafka: fetch.max.bytes of the broker
	leastFetch     = 64 << 10 // minimum taken from the budget for a fetch, which waits for it
	waitedFetch    = 1 << 20  // maximum for a fetch that has waited, unless its MinBytes is larger
	readCommitted  = 1
	followerReads  = 11 // from this version on followers serve clients, and leaders name them (KIP-392)
	noFetchSession = 0

	// damagePause delays a response that has no records and the error of a damaged partition.
	// Clients repeat such a fetch at once: without a pause it would keep them and the broker busy.
	damagePause = 100 * time.Millisecond
)

// fetching is a fetch request under way.
type fetching struct {
	client  fetchClient
	session *fetchSession // nil without a session
	full    bool          // the response has every partition
	parts   []*fetchPart  // in reading order
	request partition.FetchRequest
	asked   []int // for each partition of request, its index in parts
	answers []kmsg.FetchResponseTopicPartition
	ready   bool          // a partition has an error or diverges: the response must not wait
	damaged bool          // a partition returned KAFKA_STORAGE_ERROR
	pause   time.Duration // delay of the response that tryFetch has found; 0 if it has found none
}

// tryFetch answers a fetch that finds enough bytes, has an error, or does not wait. It returns
// false for all others, which fetch serves.
func tryFetch(c *call, r kmsg.Request) (kmsg.Response, bool) {
	req := r.(*kmsg.FetchRequest)
	f, code := c.planFetch(req)
	if code != 0 {
		return refusedFetch(req, code), true
	}
	want := c.mostFetched(min(max(int(req.MaxBytes), 1), maxFetchBytes))
	atLeast := min(int(req.MinBytes), want)
	granted, err := c.conn.transport.TakeSome(c.conn.transport.Waiting(), want, min(want, leastFetch))
	if err != nil {
		return nil, true
	}
	f.request.MaxBytes = granted
	if c.s.cfg.Intercept == nil { // an interceptor may keep the response
		c.fetched = c.s.memory.Fetched.Take(c.conn.lastFetch, granted)
		f.request.Buf = c.fetched
	}
	n, ok := f.read(c)
	c.conn.lastFetch = n
	c.charged = min(max(n, cap(c.fetched)), granted)
	c.conn.transport.Give(granted - c.charged)
	if !ok {
		return nil, true
	}
	if n == 0 && f.damaged && req.MaxWaitMillis > 0 {
		f.pause = min(damagePause, time.Duration(req.MaxWaitMillis)*time.Millisecond)
	} else if n >= atLeast || f.ready || req.MaxWaitMillis <= 0 || len(f.parts) == 0 {
		return f.respond(c, req), true
	}
	c.s.memory.Fetched.Keep(c.fetched)
	c.conn.transport.Give(c.charged)
	c.charged, c.fetched, f.request.Buf = 0, nil, nil
	f.request.MinBytes = atLeast
	f.request.MaxWait = time.Duration(req.MaxWaitMillis) * time.Millisecond
	f.request.MaxBytes = min(want, max(waitedFetch, atLeast))
	c.fetching = f
	return nil, false
}

// refusedFetch answers a fetch that is rejected as a whole. Versions before 7 have no error code
// for the request. So each partition has the error too, up to version 12, except for errors of
// sessions. Kafka: FetchRequest.getErrorResponse.
func refusedFetch(req *kmsg.FetchRequest, code Code) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode = int16(code)
	if code != UnknownServerError || req.Version >= 13 {
		return resp
	}
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.RecordBatches = p.Partition, int16(code), []byte{}
			rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = -1, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// mayAnswer reports whether the wait has been ended while the connection is still open.
func (c *call) mayAnswer() bool {
	return c.ctx.Err() != nil && c.conn.transport.Context().Err() == nil
}

// fetch waits for the records that tryFetch did not find. Key 1, versions 4 to 18.
//
// A wait would keep the partitions of the request in memory. If there are too many of all waiting
// fetches, the response is sent at once, and is empty.
func (c *call) fetch(req *kmsg.FetchRequest) kmsg.Response {
	f := c.fetching
	if !c.s.waiting.enter(f.client.owner, len(f.parts)) {
		return f.respond(c, req)
	}
	defer c.s.waiting.leave(f.client.owner, len(f.parts))
	if f.pause > 0 {
		timer := time.NewTimer(f.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			return f.respond(c, req)
		case <-c.ctx.Done():
		}
		if !c.mayAnswer() {
			return nil
		}
		return f.respond(c, req)
	}
	f.request.Reserve, f.request.Release = c.conn.transport.Take, c.conn.transport.Give
	n, ok := f.read(c)
	if !ok && !c.mayAnswer() {
		return nil
	}
	c.charged = min(n, f.request.MaxBytes)
	return f.respond(c, req) // if the wait was ended, with the results of tryFetch
}

// replicaOf returns the broker id in a follower's request; -1 for a client.
func replicaOf(req *kmsg.FetchRequest) int32 {
	if req.Version >= 15 {
		return req.ReplicaState.ID
	}
	return req.ReplicaID
}

// planFetch determines the partitions to read: all of the request, or all of its session after the
// request has changed it.
func (c *call) planFetch(req *kmsg.FetchRequest) (*fetching, Code) {
	if req.IsolationLevel < 0 || req.IsolationLevel > readCommitted {
		return nil, UnknownServerError
	}
	f := &fetching{client: fetchClient{c.conn, c.conn.ownedBy}}
	var nameOf func(topic.ID) (string, bool)
	if c.version >= 13 {
		nameOf = c.s.cluster.TopicName
	}
	if code := c.conn.broker.fetches.open(f, req, nameOf); code != 0 {
		return nil, code
	}
	f.request.Isolation = partition.ReadUncommitted
	if req.IsolationLevel == readCommitted {
		f.request.Isolation = partition.ReadCommitted
	}
	f.request.Rack, f.request.LeaderOnly = req.Rack, c.version < followerReads
	f.request.Partial = c.s.cfg.PartialBatches
	f.request.InOrder = true // sessions rotate the order; other clients do it themselves
	f.answers = make([]kmsg.FetchResponseTopicPartition, len(f.parts))
	for i, p := range each(c, f.parts) {
		a := &f.answers[i]
		*a = kmsg.NewFetchResponseTopicPartition()
		a.Partition, a.RecordBatches = p.tp.Partition, []byte{}
		a.HighWatermark, a.LastStableOffset, a.LogStartOffset = -1, -1, -1
		tp := p.tp
		if c.version >= 13 {
			tp.Topic, _ = c.s.cluster.TopicName(p.id)
		}
		if code := c.mayFetch(p, tp.Topic, replicaOf(req)); code != 0 {
			a.ErrorCode, f.ready = int16(code), true
			continue
		}
		if p.lastFetchedEpoch >= 0 {
			if code := c.diverges(tp, p, a); code != 0 || a.DivergingEpoch.Epoch >= 0 {
				a.ErrorCode, f.ready = int16(code), true
				c.hintFetch(tp, a)
				continue
			}
		}
		f.asked = append(f.asked, i)
		fp := partition.FetchPartition{
			TopicPartition: tp, Offset: p.offset, MaxBytes: max(int(p.maxBytes), 1), CurrentLeaderEpoch: p.leaderEpoch,
			LastFetchedEpoch: -1, // see diverges
		}
		if c.version >= 13 {
			fp.TopicID = p.id // while the fetch waits another topic may take the name
		}
		f.request.Partitions = append(f.request.Partitions, fp)
	}
	return f, 0
}

// mayFetch returns 0 if the client may read p. name is the topic's name. From version 13 on it is
// empty if no topic has the id of p. Then the error is UNKNOWN_TOPIC_ID unless the session has a
// former name. A client that may read that name gets INCONSISTENT_TOPIC_ID if another topic has
// the name now, or else UNKNOWN_TOPIC_OR_PARTITION. Kafka: KafkaApis.handleFetchRequest,
// FetchSession, ReplicaManager.readFromLog.
func (c *call) mayFetch(p *fetchPart, name string, replica int32) Code {
	if name != "" || c.version < 13 {
		return c.mayRead(name, replica)
	}
	if p.name == "" {
		return UnknownTopicID
	}
	if code := c.mayRead(p.name, replica); code != 0 {
		return code
	}
	if _, ok := c.s.cluster.TopicID(p.name); ok {
		return InconsistentTopicID
	}
	return UnknownTopicOrPartition
}

// diverges checks whether the log still has the client's last fetched epoch up to p.offset. After
// an unclean election it may not. Then a has the diverging epoch and its end offset. A follower
// whose log is shorter than p.offset returns OFFSET_OUT_OF_RANGE; Kafka's reports that the
// client's log diverges.
func (c *call) diverges(tp record.TopicPartition, p *fetchPart, a *kmsg.FetchResponseTopicPartition) Code {
	part, err := c.view.Replica(tp)
	if err != nil {
		return codeOf(err)
	}
	if part == nil {
		return 0
	}
	leads := part.LeaderEpoch()
	epoch, end := part.EpochEnd(p.lastFetchedEpoch)
	switch {
	case leads >= 0 && p.lastFetchedEpoch > leads, leads < 0 && (epoch < 0 || p.offset > part.LogEndOffset()):
		return OffsetOutOfRange
	case epoch < p.lastFetchedEpoch || end < p.offset:
		a.DivergingEpoch.Epoch, a.DivergingEpoch.EndOffset = epoch, end
		a.HighWatermark, a.LastStableOffset, a.LogStartOffset = part.HighWatermark(), part.LastStableOffset(), part.LogStartOffset()
	}
	return 0
}

// read reads the partitions, waiting as f.request specifies, and returns the number of bytes. It
// returns false if the connection or the server is closing.
func (f *fetching) read(c *call) (int, bool) {
	if len(f.asked) == 0 {
		return 0, true
	}
	got, err := c.view.Fetch(c.ctx, &f.request)
	if err != nil {
		return 0, false
	}
	n := 0
	for i := range got.Partitions {
		g, a := &got.Partitions[i], &f.answers[f.asked[i]]
		a.ErrorCode = c.errorCode(g.Err)
		a.HighWatermark, a.LastStableOffset, a.LogStartOffset = g.HighWatermark, g.LastStableOffset, g.LogStartOffset
		if g.Err != nil {
			f.ready, f.damaged = true, f.damaged || Code(a.ErrorCode) == KafkaStorageError
			c.hintFetch(g.TopicPartition, a)
			continue
		}
		if g.PreferredReplica != 0 {
			a.PreferredReadReplica, f.ready = g.PreferredReplica, true
		}
		n += len(g.Bytes)
		if g.Bytes != nil {
			a.RecordBatches = g.Bytes
		}
		if f.request.Isolation == partition.ReadCommitted {
			a.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 0, len(g.Aborted))
			for _, t := range g.Aborted {
				a.AbortedTransactions = append(a.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
			}
		}
	}
	return n, true
}

// respond builds the response. In a session it has only partitions with news for the client.
func (f *fetching) respond(c *call, req *kmsg.FetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	if c.throttleFetch(f) {
		f.leaveOut(c, req, resp)
		return resp
	}
	send := f.answers
	parts := f.parts
	if f.session != nil {
		resp.SessionID = f.session.id
		parts, send = f.session.news(f)
	}
	var last topicKey
	for i, p := range parts {
		// Only adjacent partitions of a topic share an element, since the order is the request's,
		// as in Kafka's FetchResponse.toMessage.
		if k := (topicKey{p.tp.Topic, p.id}); i == 0 || k != last {
			last = k
			resp.Topics = append(resp.Topics, kmsg.FetchResponseTopic{Topic: p.tp.Topic, TopicID: p.id})
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, send[i])
	}
	if f.ready {
		c.addHinted(resp)
	}
	return resp
}

// leaveOut completes the response to a throttled client. It has no partitions, and the session
// stays as if nothing had been read. A session that this request created is removed. Kafka:
// FetchContext.getThrottledResponse.
func (f *fetching) leaveOut(c *call, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	switch {
	case f.session == nil:
	case req.SessionEpoch == 0:
		c.conn.broker.fetches.remove(f.session.id)
	default:
		resp.SessionID = f.session.id
	}
}
