package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

// ShareBackend is what members of share groups need. strata.Cluster is one.
type ShareBackend interface {
	Metadata(ctx context.Context, topics ...string) (replication.Metadata, error)
	ShareCoordinator() (*share.Coordinator, error)
}

// ErrNotAcquired says that this member does not have a record, or not any more: its lock has
// passed, or the partition has another leader, and another member may have it by now.
var ErrNotAcquired = share.ErrInvalidRecordState

// ShareConfig describes a member of a share group.
type ShareConfig struct {
	Group  string   // must be set; its members share the records of Topics
	Topics []string // at least one, all of which exist when the member begins

	// MemberID names the member; no two that live at the same time have the same. Empty: a random
	// one.
	MemberID string

	// MaxRecords is how many records Poll acquires at most. Each is locked for this member until it
	// says what came of it, so that many are for jobs that are short. 0: 100. Kafka:
	// max.poll.records with share.acquire.mode=record_limit.
	MaxRecords int

	// Reset says where the group begins in a partition that is new to it: Earliest (the zero
	// Reset), Latest or At. Kafka: share.auto.offset.reset, whose default is latest.
	Reset Reset

	// Isolation says what of transactions is handed out: the zero value is ReadCommitted. All
	// members of the group are to have the same. Kafka: share.isolation.level, whose default is
	// read_uncommitted.
	Isolation Isolation

	// Explicit says that only Accept, Release and Reject say what came of a record. Otherwise Poll
	// and Records accept what the application was given before and has said nothing of. Kafka:
	// share.acknowledgement.mode.
	Explicit bool
}

// A ShareRecord is a record that this member has.
type ShareRecord struct {
	record.Record
	Deliveries int // how often it was handed out, this time included

	tp share.TopicPartition
}

// A Share is a member of a share group: a worker at a queue. It takes records of all partitions of
// its topics that no other member has, in no promised order, as many members as there may be; each
// is locked for it until it is accepted, released or rejected, or share.Config.LockDuration has
// passed. A record that nobody accepts is handed out again, share.Config.MaxDeliveryCount times in
// all.
//
// Poll and Records are for one goroutine at a time; the other methods are safe for concurrent use,
// so that workers may acknowledge what one goroutine polls.
type Share struct {
	b   ShareBackend
	c   *share.Coordinator
	cfg ShareConfig
	ctx context.Context // done when closing
	end context.CancelFunc

	mu    sync.Mutex                  // guards the fields below
	given map[shareOffset]ShareRecord // handed to the application, which has said nothing of it
	first int                         // partition that the next Poll begins with
	once  bool                        // Close was called
}

type shareOffset struct {
	tp     share.TopicPartition
	offset int64
}

// NewShare returns a member of a share group. It returns a *ConfigError, or ErrUnknownTopic if a
// topic does not exist. The Share must be closed, before its backend.
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
	c, err := b.ShareCoordinator()
	if err != nil {
		return nil, err
	}
	s := &Share{b: b, c: c, cfg: cfg, given: map[shareOffset]ShareRecord{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	_, missing, err := s.partitions(s.ctx)
	return s, errors.Join(missing, err)
}

// MemberID returns the name of the member.
func (s *Share) MemberID() string { return s.cfg.MemberID }

// shareLooksAgain is after how long a Poll that waits looks for new partitions.
const shareLooksAgain = 5 * time.Second

// Poll accepts what the last Poll has returned and nothing was said of, unless Config.Explicit, and
// returns records for this member, at least one. It waits for them without polling the log, until
// ctx or Close ends it with an error; new partitions are seen within five seconds. What is acquired
// when ctx ends is returned, without an error. A topic that was deleted is passed over until it is
// created again; while there is none at all the error matches ErrUnknownTopic.
//
// If what was to be accepted is not this member's any more, the error matches ErrNotAcquired: the
// next Poll goes on. Other errors are those of the log and of the coordinator.
func (s *Share) Poll(ctx context.Context) ([]ShareRecord, error) {
	if !s.cfg.Explicit {
		if err := s.acknowledge(ctx, share.Accept, s.outstanding()); err != nil {
			return nil, err
		}
	}
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for {
		recs, err := s.poll(polling)
		switch {
		case s.ctx.Err() != nil:
			if len(recs) > 0 { // acquired behind what Close has given back
				_ = s.leave()
			}
			return nil, ErrClosed
		case len(recs) > 0: // the next Poll would accept them, and nobody had seen them
			return recs, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
	}
}

// poll is one attempt.
func (s *Share) poll(ctx context.Context) ([]ShareRecord, error) {
	tps, missing, err := s.partitions(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(tps) == 0:
		return nil, missing
	}
	s.mu.Lock()
	s.first++
	k := s.first % len(tps)
	s.mu.Unlock()
	waiting, cancel := context.WithTimeout(ctx, shareLooksAgain)
	defer cancel()
	f, err := s.c.Fetch(waiting, share.FetchRequest{Group: s.cfg.Group, Member: s.cfg.MemberID, Partitions: append(tps[k:len(tps):len(tps)], tps[:k]...),
		MaxRecords: s.cfg.MaxRecords, Reset: s.cfg.Reset.offsetSpec(), Isolation: s.cfg.Isolation})
	if errors.Is(err, ErrUnknownTopic) { // topics were deleted meanwhile, and perhaps created again
		if now, _, again := s.partitions(ctx); again == nil && len(now) > 0 && !slices.Equal(now, tps) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	recs, gaps, err := shareRecords(f)
	if err != nil {
		return nil, err
	}
	if len(gaps) > 0 {
		err := s.c.Acknowledge(ctx, s.cfg.Group, s.cfg.MemberID, f.TopicPartition, gaps)
		if err != nil && !errors.Is(err, ErrNotAcquired) && len(recs) == 0 {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range recs {
		s.given[shareOffset{r.tp, r.Offset}] = r
	}
	return recs, nil
}

// offsetSpec is where it leads to.
func (r Reset) offsetSpec() partition.OffsetSpec {
	switch r.kind {
	case resetLatest:
		return partition.Latest
	case resetAt:
		return partition.At(r.at)
	}
	return partition.Earliest
}

// partitions returns those of all topics that there are, and why there are not others.
func (s *Share) partitions(ctx context.Context) (all []share.TopicPartition, missing, err error) {
	md, err := s.b.Metadata(ctx, s.cfg.Topics...)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range s.cfg.Topics {
		t := md.Topics[name]
		if t.Err != nil {
			missing = errors.Join(missing, fmt.Errorf("consumer: share: topic %q: %w", name, t.Err))
			continue
		}
		for p := range t.Partitions {
			all = append(all, share.TopicPartition{TopicPartition: record.TopicPartition{Topic: name, Partition: int32(p)}, TopicID: t.ID})
		}
	}
	return all, missing, nil
}

// shareRecords decodes what was acquired. Offsets without a record, as compaction leaves, are gaps.
func shareRecords(f share.Fetched) (recs []ShareRecord, gaps []share.Ack, err error) {
	deliveries := f.Deliveries
	next := int64(0) // offset of the first delivery that was not looked at
	if len(deliveries) > 0 {
		next = deliveries[0].First
	}
	until := func(offset int64) { // what is acquired below offset has no record
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
