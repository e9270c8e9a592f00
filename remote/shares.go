package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
)

// JoinShare implements consumer.ShareBackend. It changes share.auto.offset.reset and
// share.isolation.level of the group if they differ from the member's, which needs the right to
// alter the group's configuration. The member has connections of its own.
func (s *session) JoinShare(ctx context.Context, m consumer.ShareMember) (consumer.ShareMembership, error) {
	if err := s.c.Supports(ShareGroups); err != nil {
		return nil, final(err)
	}
	md, err := s.Metadata(ctx, m.Topics...)
	if err != nil {
		return nil, err
	}
	for _, name := range m.Topics {
		if err := md.Topics[name].Err; err != nil {
			return nil, err
		}
	}
	if err := s.configureShare(ctx, m); err != nil {
		return nil, err
	}
	own, err := s.c.newSession(consumer.Session{ClientID: s.of.ClientID, Group: m.Group}, true)
	if err != nil {
		return nil, err
	}
	member := &shareMember{
		s: own, member: m, topics: map[[16]byte]string{}, lines: map[int32]*shareLine{}, from: map[record.TopicPartition]int32{}, polls: map[int32]bool{}, arrived: make(chan struct{}),
	}
	if err := member.join(ctx); err != nil {
		own.close()
		return nil, err
	}
	own.spawn(member.keepAlive)
	return member, nil
}

// join sends the first heartbeat, until ctx ends if its errors pass: a coordinator is loading, or
// the topic of the states of share groups is being created.
func (m *shareMember) join(ctx context.Context) error {
	for {
		err := m.beat(ctx)
		if err == nil || !passes(err) || m.s.pause(ctx, shareRetry) != nil {
			return err
		}
	}
}

// configureShare sets the settings of the group that the member names.
func (s *session) configureShare(ctx context.Context, m consumer.ShareMember) error {
	want := map[string]string{"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
	switch {
	case m.Reset == partition.Latest:
		want["share.auto.offset.reset"] = "latest"
	case m.Reset >= 0:
		ago := max(time.Since(time.UnixMilli(int64(m.Reset))), 0)
		want["share.auto.offset.reset"] = fmt.Sprintf("by_duration:PT%.3fS", ago.Seconds())
	}
	if m.Isolation == consumer.ReadUncommitted {
		want["share.isolation.level"] = "read_uncommitted"
	}
	has, err := s.c.config(ctx, kmsg.ConfigResourceTypeGroupConfig, m.Group)
	if err != nil {
		return err
	}
	var changes []replication.ConfigChange
	for key, value := range want {
		if has[key].value != value {
			changes = append(changes, replication.ConfigChange{Key: key, Op: replication.SetConfig, Value: value})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return s.c.alterConfigs(ctx, kmsg.ConfigResourceTypeGroupConfig, m.Group, changes)
}

// A shareMember is a member of a share group over the network (KIP-932). A broker counts a delivery
// when the member acquires the record.
type shareMember struct {
	s      *session
	member consumer.ShareMember

	mu       sync.Mutex // guards the fields below
	epoch    int32
	interval time.Duration // between heartbeats
	err      error         // final: ends Fetch
	left     bool
	assigned []share.TopicPartition
	topics   map[[16]byte]string             // names of assigned topics
	lines    map[int32]*shareLine            // by broker
	from     map[record.TopicPartition]int32 // broker whose session has the acquired records
	polls    map[int32]bool                  // brokers with a fetch under way
	ready    []readyShare                    // acquired, not returned by Fetch
	arrived  chan struct{}                   // closed and replaced when there is news for Fetch
}

// readyShare are acquired records of one partition. Their locks end at until.
type readyShare struct {
	share.Fetched
	until time.Time
}

// A shareLine is the share session of the member at one broker. Requests in a session have
// consecutive epochs, so one is sent after the other.
type shareLine struct {
	turn  chan struct{} // capacity 1; holds a value while a request is under way
	epoch int32         // of the next request; 0: a new session
	has   map[record.TopicPartition][16]byte
	acks  []*shareAck // for the next request; guarded by shareMember.mu
}

// defaultLock is the time of locks of brokers whose responses do not have it. Kafka:
// group.share.record.lock.duration.ms.
const defaultLock = 30 * time.Second

// shareRetry is the time before a heartbeat or fetch that failed is repeated.
const shareRetry = 100 * time.Millisecond

// beat sends a heartbeat. With epoch 0 the member joins.
func (m *shareMember) beat(ctx context.Context) error {
	m.mu.Lock()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = m.member.Group, m.member.MemberID, m.epoch
	if m.epoch == 0 {
		req.SubscribedTopicNames = m.member.Topics
	}
	m.mu.Unlock()
	resp, err := toGroup[*kmsg.ShareGroupHeartbeatResponse](ctx, m.s, "heartbeat in share group", m.member.Group, req)
	if err == nil {
		err = m.s.groupError(m.member.Group, resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return err
	}
	var assigned []share.TopicPartition
	if resp.Assignment != nil {
		if assigned, err = m.named(ctx, resp.Assignment.TopicPartitions); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch, m.interval = resp.MemberEpoch, time.Duration(resp.HeartbeatIntervalMillis)*time.Millisecond
	if resp.Assignment != nil {
		m.assigned = assigned
		m.wakeLocked()
	}
	return nil
}

// named returns the assigned partitions with the names of their topics.
func (m *shareMember) named(ctx context.Context, topics []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition) (all []share.TopicPartition, err error) {
	md, err := m.s.Metadata(ctx, m.member.Topics...)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range md.Topics {
		if t.Err == nil {
			m.topics[t.ID] = t.Name
		}
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if name, ok := m.topics[t.TopicID]; ok {
				all = append(all, share.TopicPartition{TopicPartition: record.TopicPartition{Topic: name, Partition: p}, TopicID: t.TopicID})
			}
		}
	}
	return all, nil
}

func (m *shareMember) wakeLocked() {
	close(m.arrived)
	m.arrived = make(chan struct{})
}

// keepAlive sends heartbeats until the session ends or the group rejects the member for good.
func (m *shareMember) keepAlive() {
	m.mu.Lock()
	wait := m.interval
	m.mu.Unlock()
	for m.s.pause(m.s.ctx, wait) == nil {
		err := m.beat(m.s.ctx)
		m.mu.Lock()
		wait = m.interval
		switch {
		case err == nil:
		case m.left:
		case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrFencedMemberEpoch), errors.Is(err, group.ErrGroupNotFound):
			m.epoch, wait = 0, shareRetry
		case passes(err):
			wait = shareRetry
		default:
			m.err = err
			m.wakeLocked()
		}
		ended := m.err != nil || m.left
		m.mu.Unlock()
		if ended {
			return
		}
	}
}

// Fetch implements consumer.ShareMembership. Records of several partitions may arrive together: the
// later calls return them.
func (m *shareMember) Fetch(ctx context.Context, most int) (share.Fetched, error) {
	for {
		m.mu.Lock()
		for len(m.ready) > 0 {
			r := m.ready[0]
			m.ready = m.ready[1:]
			if time.Now().Before(r.until) { // otherwise the records may belong to another member by now
				m.mu.Unlock()
				return r.Fetched, nil
			}
		}
		err, arrived := m.err, m.arrived
		if err == nil && !m.left {
			m.pollLocked(most)
		}
		m.mu.Unlock()
		if err != nil {
			return share.Fetched{}, err
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return share.Fetched{}, ctx.Err()
		case <-m.s.ctx.Done():
			return share.Fetched{}, replication.ErrClosed
		}
	}
}

// pollLocked sends a fetch to each leader of assigned partitions that has none.
func (m *shareMember) pollLocked(most int) {
	wanted := map[int32]map[record.TopicPartition][16]byte{}
	for _, tp := range m.assigned {
		leader, err := m.s.puller.leader(tp.TopicPartition)
		if err != nil {
			continue
		}
		if wanted[leader] == nil {
			wanted[leader] = map[record.TopicPartition][16]byte{}
		}
		wanted[leader][tp.TopicPartition] = tp.TopicID
	}
	for broker, tps := range wanted {
		if !m.polls[broker] {
			m.polls[broker] = m.s.spawn(func() { m.poll(broker, tps, most) })
		}
	}
}

// lineLocked returns the session at a broker.
func (m *shareMember) lineLocked(broker int32) *shareLine {
	l := m.lines[broker]
	if l == nil {
		l = &shareLine{turn: make(chan struct{}, 1), has: map[record.TopicPartition][16]byte{}}
		m.lines[broker] = l
	}
	return l
}

// line returns the session at a broker, which the caller uses until it calls done.
func (m *shareMember) line(broker int32) (l *shareLine, done func()) {
	m.mu.Lock()
	l = m.lineLocked(broker)
	m.mu.Unlock()
	l.turn <- struct{}{}
	return l, func() { <-l.turn }
}

// poll fetches from one broker once.
func (m *shareMember) poll(broker int32, tps map[record.TopicPartition][16]byte, most int) {
	l, done := m.line(broker)
	defer done()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.polls, broker)
		m.wakeLocked()
	}()
	resp, err := toBroker[*kmsg.ShareFetchResponse](m.s.ctx, m.s, "share fetch", broker, l.fetchRequest(m.member, tps, most))
	if err == nil {
		err = codeError(fromPartition, resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		l.reset()
		m.failed(err)
		_ = m.s.pause(m.s.ctx, shareRetry)
		return
	}
	l.advance(tps)
	m.keep(broker, resp)
}

// failed stores a final error for Fetch.
func (m *shareMember) failed(err error) {
	var r interface{ Retriable() bool }
	if errors.As(err, &r) && !r.Retriable() && !isSessionError(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.err = err
	}
}

// isSessionError reports whether a broker has no such share session, or another epoch of it: the
// next request begins a new one.
func isSessionError(err error) bool {
	var coded *CodeError
	return errors.As(err, &coded) && (coded.Code == kerr.ShareSessionNotFound.Code || coded.Code == kerr.InvalidShareSessionEpoch.Code)
}

// acquireByRecord is the mode in which MaxRecords is a strict limit (KIP-1206). Kafka:
// share.acquire.mode=record_limit.
const acquireByRecord = 1

// fetchRequest is the next fetch of the session. In a new session it names all partitions, later
// only the difference.
func (l *shareLine) fetchRequest(m consumer.ShareMember, tps map[record.TopicPartition][16]byte, most int) kmsg.Request {
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.Group, &m.MemberID, l.epoch
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = millis(longestPoll), 1, 1<<20
	// The broker locks and counts no more than that. Before version 2, of Kafka 4.2, it locks whole
	// batches.
	req.MaxRecords, req.BatchSize, req.ShareAcquireMode = int32(most), int32(most), acquireByRecord
	topics := index[[16]byte]{}
	for tp, id := range tps {
		if l.has[tp] == id {
			continue
		}
		i, first := topics.of(id)
		if first {
			t := kmsg.NewShareFetchRequestTopic()
			t.TopicID = id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewShareFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = tp.Partition, 1<<20
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	for tp, id := range l.has {
		if tps[tp] != id {
			t := kmsg.NewShareFetchRequestForgottenTopicsData()
			t.TopicID, t.Partitions = id, []int32{tp.Partition}
			req.ForgottenTopicsData = append(req.ForgottenTopicsData, t)
		}
	}
	return req
}

// advance notes that the broker has processed a request of the session. nil: the same partitions.
func (l *shareLine) advance(tps map[record.TopicPartition][16]byte) {
	if l.epoch++; l.epoch < 0 {
		l.epoch = 1
	}
	if tps != nil {
		l.has = tps
	}
}

// reset makes the next request begin a new session. The broker releases the records of the old one.
func (l *shareLine) reset() { l.epoch, l.has = 0, map[record.TopicPartition][16]byte{} }

// keep stores the acquired records of a response.
func (m *shareMember) keep(broker int32, resp *kmsg.ShareFetchResponse) {
	until := time.Now().Add(time.Duration(resp.AcquisitionLockTimeoutMillis) * time.Millisecond)
	if resp.AcquisitionLockTimeoutMillis <= 0 { // version 0 of the response does not have it
		until = time.Now().Add(defaultLock)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			m.mu.Lock()
			tp := record.TopicPartition{Topic: m.topics[t.TopicID], Partition: p.Partition}
			m.mu.Unlock()
			switch err := codeError(fromPartition, p.ErrorCode, p.ErrorMessage); {
			case p.ErrorCode == kerr.NotLeaderForPartition.Code || p.ErrorCode == kerr.FencedLeaderEpoch.Code:
				m.s.c.moved(tp.Topic, tp.Partition, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
			case err != nil:
				m.s.c.refreshSoon()
				m.failed(err)
			case len(p.AcquiredRecords) > 0:
				f := share.Fetched{TopicPartition: share.TopicPartition{TopicPartition: tp, TopicID: t.TopicID}, Bytes: p.Records}
				for _, a := range p.AcquiredRecords {
					f.Deliveries = append(f.Deliveries, share.Delivery{First: a.FirstOffset, Last: a.LastOffset, Count: a.DeliveryCount})
				}
				whole, _, _, err := verify(p.Records, p.AcquiredRecords[0].FirstOffset, -1)
				if err != nil {
					m.failed(final(err))
					continue
				}
				f.Bytes = whole
				m.mu.Lock()
				m.from[tp] = broker
				m.ready = append(m.ready, readyShare{f, until})
				m.mu.Unlock()
			}
		}
	}
}

// Begin implements consumer.ShareMembership. The broker has counted the delivery.
func (m *shareMember) Begin(context.Context, share.TopicPartition, int64, int64) error { return nil }

// Acknowledge implements consumer.ShareMembership. It does not wait for the response. A request has
// all acknowledgements that have come since the last one of the same broker. It waits for a fetch
// from that broker, for at most half a second.
func (m *shareMember) Acknowledge(_ context.Context, tp share.TopicPartition, acks []share.Ack) (stored func(context.Context) error, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	broker, ok := m.from[tp.TopicPartition]
	if !ok || m.left {
		return nil, share.ErrInvalidRecordState
	}
	if len(acks) == 0 {
		return func(context.Context) error { return nil }, nil
	}
	l := m.lineLocked(broker)
	if len(l.acks) == 0 && !m.s.spawn(func() { m.acknowledge(broker) }) {
		return nil, share.ErrInvalidRecordState
	}
	ack := &shareAck{tp: tp, acks: acks, ended: make(chan struct{})}
	l.acks = append(l.acks, ack)
	return func(ctx context.Context) error {
		select {
		case <-ack.ended:
			return ack.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// acknowledge sends the acknowledgements that wait for one broker.
func (m *shareMember) acknowledge(broker int32) {
	l, done := m.line(broker)
	defer done()
	m.mu.Lock()
	waiting := l.acks
	l.acks = nil
	m.mu.Unlock()
	for len(waiting) > 0 {
		var some []*shareAck
		some, waiting = splitAcks(waiting)
		m.sendAcks(l, broker, some)
		for _, a := range some {
			close(a.ended)
		}
	}
}

// sendAcks sends acknowledgements with one request, and sets their errors. A broker rejects all of
// a partition if it rejects one: then each is sent again by itself.
func (m *shareMember) sendAcks(l *shareLine, broker int32, acks []*shareAck) {
	rejected, err := m.requestAcks(l, broker, acks)
	for _, a := range acks {
		switch failed := rejected[a.tp.TopicPartition]; {
		case err != nil:
			a.err = err
		case failed != nil && len(acks) > 1:
			m.sendAcks(l, broker, []*shareAck{a})
		default:
			a.err = failed
		}
	}
}

// requestAcks sends one request. It returns the errors of partitions.
func (m *shareMember) requestAcks(l *shareLine, broker int32, acks []*shareAck) (rejected map[record.TopicPartition]error, err error) {
	if l.epoch == 0 { // the session in which the records were acquired has ended
		return nil, share.ErrInvalidRecordState
	}
	req := acknowledgeRequest(acks)
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.member.Group, &m.member.MemberID, l.epoch
	resp, err := toBroker[*kmsg.ShareAcknowledgeResponse](m.s.ctx, m.s, "share acknowledge", broker, req)
	if err == nil {
		err = codeError(fromPartition, resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		l.reset()
		if isSessionError(err) {
			err = fmt.Errorf("%w: %w", share.ErrInvalidRecordState, err)
		}
		return nil, err
	}
	l.advance(nil)
	names := map[[16]byte]string{}
	for _, a := range acks {
		names[a.tp.TopicID] = a.tp.Topic
	}
	rejected = map[record.TopicPartition]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := codeError(fromPartition, p.ErrorCode, p.ErrorMessage); err != nil {
				rejected[record.TopicPartition{Topic: names[t.TopicID], Partition: p.Partition}] = err
			}
		}
	}
	return rejected, nil
}

// Leave implements consumer.ShareMembership. The brokers release the records of the member's
// sessions; their deliveries stay counted.
func (m *shareMember) Leave(ctx context.Context) error {
	m.mu.Lock()
	first := !m.left
	m.left = true
	lines := make(map[int32]*shareLine, len(m.lines))
	for broker, l := range m.lines {
		lines[broker] = l
	}
	m.ready = nil
	m.wakeLocked()
	m.mu.Unlock()
	if !first || m.s.ctx.Err() != nil {
		return nil
	}
	defer m.s.close()
	var errs []error
	for broker := range lines {
		errs = append(errs, m.endSession(ctx, broker))
	}
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = m.member.Group, m.member.MemberID, -1
	resp, err := toGroup[*kmsg.ShareGroupHeartbeatResponse](ctx, m.s, "leave share group", m.member.Group, req)
	if err == nil {
		err = m.s.groupError(m.member.Group, resp.ErrorCode, resp.ErrorMessage)
	}
	if errors.Is(err, group.ErrUnknownMember) || errors.Is(err, group.ErrGroupNotFound) || errors.Is(err, replication.ErrClosed) {
		err = nil
	}
	return errors.Join(append(errs, err)...)
}

// endSession ends the session at a broker.
func (m *shareMember) endSession(ctx context.Context, broker int32) error {
	l, done := m.line(broker)
	defer done()
	if l.epoch == 0 {
		return nil
	}
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.member.Group, &m.member.MemberID, -1
	l.reset()
	resp, err := toBroker[*kmsg.ShareAcknowledgeResponse](ctx, m.s, "end share session", broker, req)
	if err == nil {
		err = codeError(fromPartition, resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil && (isSessionError(err) || passes(err)) { // the broker ends the session with the connection
		return nil
	}
	return err
}
