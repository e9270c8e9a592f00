package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

// ErrNotAcquired is returned when this member no longer holds a record. Its lock has timed out, or
// the partition has a new leader. Another member may hold the record by now.
var ErrNotAcquired = share.ErrInvalidRecordState

// ShareConfig describes a member of a share group.
type ShareConfig struct {
	Group  string   // required; the group's members share the records of Topics
	Topics []string // at least one; all must exist when the member starts

	// MemberID names the member. No two active members may have the same. Empty means a random one.
	MemberID string

	// MaxRecords is the most records that Poll returns; each is locked for this member and counts
	// as delivered. Records fetches as many ahead of its loop if the loop is fast. 0 means 100.
	// Kafka: max.poll.records with share.acquire.mode=record_limit. A broker of Kafka before 4.2
	// exceeds it, since it locks whole batches of its log.
	MaxRecords int

	// Reset selects the starting offset of a partition that is new to the group: Earliest (the zero
	// Reset), Latest or At. Kafka: share.auto.offset.reset, whose default is latest.
	Reset Reset

	// Isolation selects which transactional records are handed out. The zero value is
	// ReadCommitted. All members of a group should have the same. Kafka: share.isolation.level,
	// whose default is read_uncommitted.
	Isolation Isolation

	// Explicit makes only Accept, Release and Reject acknowledge records. Without it Poll and
	// Records accept the records handed out earlier that were not acknowledged. Kafka:
	// share.acknowledgement.mode.
	Explicit bool
}

// A ShareRecord is a record that this member has acquired.
type ShareRecord struct {
	record.Record
	Deliveries int // number of deliveries to applications, including this one

	tp share.TopicPartition
}

// A Share is a member of a share group, for records processed as from a queue. It acquires records
// of all partitions of its topics that no other member holds, in no particular order. A group may
// have more members than partitions. Each record is locked for its member until it is accepted,
// released or rejected, or share.Config.LockDuration has passed. A record that is not accepted is
// delivered again, share.Config.MaxDeliveryCount times in total.
//
// Poll and Records may be used by one goroutine at a time. The other methods are safe for
// concurrent use, so that workers may acknowledge records that another goroutine polls.
type Share struct {
	m   ShareMembership
	cfg ShareConfig
	ctx context.Context // done when closing
	end context.CancelFunc

	mu    sync.Mutex                  // guards the fields below
	given map[shareOffset]ShareRecord // handed to the application, not acknowledged yet
	once  bool                        // Close was called
	loop  *shareLoop                  // the running Records; nil if none is running
}

type shareOffset struct {
	tp     share.TopicPartition
	offset int64
}

// NewShare returns a member of a share group. It returns a *ConfigError, or ErrUnknownTopic if a
// topic does not exist. If b does not respond within 30 s, it returns b's error. The caller must
// close the Share before its backend.
func NewShare(b ShareBackend, cfg ShareConfig) (*Share, error) {
	refuse := func(field, value, reason string) error {
		return fmt.Errorf("consumer: share: %w", &topic.ConfigError{Key: field, Value: value, Reason: reason})
	}
	switch {
	case cfg.Group == "":
		return nil, refuse("Group", "", "is empty")
	case len(cfg.Topics) == 0:
		return nil, refuse("Topics", "", "is empty")
	case cfg.MaxRecords < 0:
		return nil, refuse("MaxRecords", fmt.Sprint(cfg.MaxRecords), "is negative")
	case cfg.Isolation != ReadCommitted && cfg.Isolation != ReadUncommitted:
		return nil, refuse("Isolation", fmt.Sprint(cfg.Isolation), "is neither ReadCommitted nor ReadUncommitted")
	case cfg.Reset.kind == resetFail:
		return nil, refuse("Reset", "Fail", "says nothing of where to begin")
	}
	cfg.Topics = slices.Compact(slices.Sorted(slices.Values(cfg.Topics)))
	cfg.MaxRecords = cmp.Or(cfg.MaxRecords, 100)
	if cfg.MemberID == "" {
		cfg.MemberID = topic.NewID().String()
	}
	start, cancel := context.WithTimeout(context.Background(), DefaultCloseTimeout)
	defer cancel()
	m, err := b.JoinShare(start, ShareMember{Group: cfg.Group, MemberID: cfg.MemberID, Topics: cfg.Topics, Reset: cfg.Reset.offsetSpec(), Isolation: cfg.Isolation})
	if err != nil {
		return nil, fmt.Errorf("consumer: share: %w", err)
	}
	s := &Share{m: m, cfg: cfg, given: map[shareOffset]ShareRecord{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// MemberID returns the name of the member.
func (s *Share) MemberID() string { return s.cfg.MemberID }

// Poll returns records for this member, at least one. Unless Config.Explicit is set, it first
// accepts the records of the last Poll that were not acknowledged. It waits without polling the log
// until ctx ends or Close is called, which returns an error. New partitions are picked up within
// five seconds. Records acquired when ctx ends are returned without an error. A deleted topic is
// skipped until it is created again; if none of the topics exists, the error matches
// ErrUnknownTopic.
//
// If a record to be accepted is no longer held by this member, the error matches ErrNotAcquired;
// the next Poll continues. Other errors come from the log or the coordinator.
func (s *Share) Poll(ctx context.Context) ([]ShareRecord, error) {
	for {
		recs, err := s.take(ctx, s.cfg.MaxRecords)
		if err != nil {
			return nil, err
		}
		if recs, err = s.begin(ctx, recs); len(recs) > 0 || err != nil {
			return recs, err
		}
	}
}

// take accepts the outstanding records unless Config.Explicit is set, and locks at most limit
// others for this member, at least one, whose delivery is pending.
func (s *Share) take(ctx context.Context, limit int) ([]ShareRecord, error) {
	if !s.cfg.Explicit {
		if err := s.acknowledge(ctx, share.Accept, s.outstanding()); err != nil {
			return nil, err
		}
	}
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for {
		recs, err := s.poll(polling, limit)
		switch {
		case s.ctx.Err() != nil:
			if len(recs) > 0 { // acquired after Close released the others
				_ = s.leave()
			}
			return nil, ErrClosed
		case len(recs) > 0:
			return recs, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
	}
}

// poll is one attempt.
func (s *Share) poll(ctx context.Context, limit int) ([]ShareRecord, error) {
	var f share.Fetched
	err := retry(ctx, func() (err error) {
		f, err = s.m.Fetch(ctx, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	recs, gaps, err := shareRecords(f)
	if err != nil {
		return nil, err
	}
	if len(gaps) > 0 {
		err := s.sendAck(ctx, f.TopicPartition, gaps)
		if err != nil && !errors.Is(err, ErrNotAcquired) && len(recs) == 0 {
			return nil, err
		}
	}
	return recs, nil
}

// begin starts the delivery of records of one partition, by offset, and returns the records that
// this member still holds: the others must not reach the application. After an error there are
// none.
func (s *Share) begin(ctx context.Context, recs []ShareRecord) ([]ShareRecord, error) {
	begun := recs[:0]
	var failed error
	for len(recs) > 0 {
		n := 1
		for n < len(recs) && recs[n].Offset == recs[n-1].Offset+1 {
			n++
		}
		err := s.m.Begin(ctx, recs[0].tp, recs[0].Offset, recs[n-1].Offset)
		if err != nil && n > 1 { // other members may hold some of them
			n = 1
			err = s.m.Begin(ctx, recs[0].tp, recs[0].Offset, recs[0].Offset)
		}
		switch {
		case err == nil:
			begun = append(begun, recs[:n]...)
		case !errors.Is(err, ErrNotAcquired):
			failed = err
		}
		recs = recs[n:]
	}
	if len(begun) == 0 {
		return nil, failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range begun {
		s.given[shareOffset{r.tp, r.Offset}] = r
	}
	return begun, nil
}

// offsetSpec returns the offset that r selects.
func (r Reset) offsetSpec() partition.OffsetSpec {
	switch r.kind {
	case resetLatest:
		return partition.Latest
	case resetAt:
		return partition.At(r.at)
	}
	return partition.Earliest
}

// shareRecords decodes acquired records. Offsets without a record, as compaction leaves, are gaps.
func shareRecords(f share.Fetched) (recs []ShareRecord, gaps []share.Ack, err error) {
	deliveries := f.Deliveries
	next := int64(0) // offset of the first delivery not processed yet
	if len(deliveries) > 0 {
		next = deliveries[0].First
	}
	until := func(offset int64) { // acquired offsets below offset have no record
		for len(deliveries) > 0 && next < offset {
			last := min(deliveries[0].Last, offset-1)
			if next <= last {
				gaps = append(gaps, share.Ack{First: next, Last: last, Types: []share.AckType{share.Gap}})
				next = last + 1
			}
			if next > deliveries[0].Last {
				if deliveries = deliveries[1:]; len(deliveries) > 0 {
					next = deliveries[0].First
				}
			}
		}
	}
	for p := f.Bytes; len(p) > 0; {
		b, n, err := record.Parse(p)
		if err != nil {
			return nil, nil, err
		}
		if p = p[n:]; b.IsControl() {
			continue
		}
		for r, err := range b.All() {
			if err != nil {
				return nil, nil, err
			}
			if until(r.Offset); len(deliveries) == 0 {
				return recs, gaps, nil
			}
			if r.Offset != next {
				continue
			}
			r.Topic, r.Partition, r.LeaderEpoch = f.Topic, f.Partition, b.LeaderEpoch
			recs = append(recs, ShareRecord{Record: r, Deliveries: int(deliveries[0].Count), tp: f.TopicPartition})
			if next++; next > deliveries[0].Last {
				if deliveries = deliveries[1:]; len(deliveries) > 0 {
					next = deliveries[0].First
				}
			}
		}
	}
	if n := len(f.Deliveries); n > 0 {
		until(f.Deliveries[n-1].Last + 1)
	}
	return recs, gaps, nil
}
