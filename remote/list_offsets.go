package remote

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

const (
	// lookupWait is the longest wait of ListOffsets for a leader that does not respond.
	lookupWait = 500 * time.Millisecond
	// lookupAge is the time for which a late response is kept for the next call.
	lookupAge = 5 * time.Second
)

// errLate is the error of a partition whose leader has not responded yet.
var errLate = passing(fmt.Errorf("%w: list offsets: the leader has not responded yet", ErrUnreachable))

// A lookupKey is a question about a partition.
type lookupKey struct {
	record.TopicPartition
	spec      partition.OffsetSpec
	isolation partition.Isolation
}

// A lookup is a question that was sent. done is closed when the result is set.
type lookup struct {
	done   chan struct{}
	result partition.OffsetResult
	at     time.Time // of the response
}

// ListOffsets implements consumer.LogBackend. A partition whose leader does not respond within half
// a second has an error that passes. The request continues, and the next call of the same
// consumer takes its result.
func (s *session) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	if err := s.ensureTopics(ctx, maps.Keys(at)); err != nil {
		return nil, err
	}
	got := make(map[record.TopicPartition]partition.OffsetResult, len(at))
	waiting := s.lookUp(at, iso, got)
	t := time.NewTimer(lookupWait)
	defer t.Stop()
	late := false
	for key, l := range waiting {
		if !late {
			select {
			case <-l.done:
			case <-t.C:
				late = true
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-s.ctx.Done():
				return nil, replication.ErrClosed
			}
		}
		select {
		case <-l.done:
			got[key.TopicPartition] = l.result
			s.take(key, l)
		default:
			got[key.TopicPartition] = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: errLate}
		}
	}
	return got, nil
}

// take removes a lookup whose result was returned.
func (s *session) take(key lookupKey, l *lookup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lookups[key] == l {
		delete(s.lookups, key)
	}
}

// lookUp sends the questions that are not under way, and stores in got the errors of partitions
// that have no leader.
func (s *session) lookUp(at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation, got map[record.TopicPartition]partition.OffsetResult) map[lookupKey]*lookup {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, byLeader := map[lookupKey]*lookup{}, map[int32]map[lookupKey]*lookup{}
	for key, l := range s.lookups {
		if !l.at.IsZero() && time.Since(l.at) > lookupAge {
			delete(s.lookups, key)
		}
	}
	for tp, spec := range at {
		key := lookupKey{tp, spec, iso}
		if l := s.lookups[key]; l != nil && s.own { // another caller's may be older than this call
			waiting[key] = l
			continue
		}
		leader, err := s.puller.leader(tp)
		if err != nil {
			got[tp] = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: err}
			continue
		}
		l := &lookup{done: make(chan struct{})}
		if s.lookups == nil {
			s.lookups = map[lookupKey]*lookup{}
		}
		s.lookups[key], waiting[key] = l, l
		if byLeader[leader] == nil {
			byLeader[leader] = map[lookupKey]*lookup{}
		}
		byLeader[leader][key] = l
	}
	for leader, keys := range byLeader {
		s.spawn(func() { s.listOffsets(leader, iso, keys) })
	}
	return waiting
}

func (p *puller) leader(tp record.TopicPartition) (int32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.routeLocked(&partition.FetchPartition{TopicPartition: tp}, "")
}

// listOffsets sends one request and sets the results.
func (s *session) listOffsets(leader int32, iso partition.Isolation, keys map[lookupKey]*lookup) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = -1, wireIsolation(iso), millis(s.c.cfg.RequestTimeout)
	topics := index[string]{}
	for key := range keys {
		i, first := topics.of(key.Topic)
		if first {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = key.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = key.Partition, int64(key.spec), -1
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp, err := toBroker[*kmsg.ListOffsetsResponse](s.ctx, s, "list offsets", leader, req)
	got := map[record.TopicPartition]partition.OffsetResult{}
	if err == nil {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				r := partition.OffsetResult{Offset: p.Offset, TimestampMs: p.Timestamp, LeaderEpoch: p.LeaderEpoch, Err: codeError(fromPartition, p.ErrorCode, nil)}
				if r.Err != nil {
					r.Offset, r.TimestampMs = -1, -1
					if p.ErrorCode != kerr.OffsetNotAvailable.Code {
						s.c.refreshSoon()
					}
				}
				got[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = r
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range keys {
		r, ok := got[key.TopicPartition]
		if !ok {
			if r = (partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: err}); err == nil {
				r.Err = passing(fmt.Errorf("%w: list offsets: the response left the partition out", ErrUnreachable))
			}
		}
		l.result, l.at = r, time.Now()
		close(l.done)
	}
}
