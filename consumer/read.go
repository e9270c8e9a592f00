package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// ErrTopicReplaced says that a topic was deleted while Read or Follow was at work on it. A topic of
// that name may exist again: it is another one with its own offsets, and nothing of it was read.
var ErrTopicReplaced = errors.New("consumer: topic was deleted while it was read")

// DefaultReadBytes is ReadConfig.MaxBytes by default.
const DefaultReadBytes = 8 << 20

// ReadConfig says what Read and Follow read. Only Topic must be set.
type ReadConfig struct {
	Topic      string
	Partitions []int32 // nil: all, for Follow also those that are added later

	// From is where to begin: Earliest (the zero Reset), Latest or At. Fail makes no sense here.
	From Reset
	// Start has the partitions that begin elsewhere: an offset, StartEarliest, StartLatest, or
	// StartReset for what From says.
	Start record.Offsets

	Isolation Isolation // the zero value is ReadCommitted

	// Rack is where the reader is, as in Config. Where Read ends is what the leader says.
	Rack string

	// ByTime makes Read merge the partitions by timestamp. Within a partition the order of offsets
	// stays, so the whole is sorted if each partition is. Follow cannot: a later record may be
	// older.
	ByTime bool

	// MaxBytes bounds what is held in memory, in bytes of batches as they are stored. One batch of
	// each partition (with ByTime; else one batch of all) is held even if it is larger. 0: 8 MiB.
	MaxBytes int
}

// Read yields the records that a topic holds, up to where it ended when the iteration began: the
// high watermark, or with ReadCommitted the last stable offset. It needs no group and commits
// nothing.
//
// The records of a partition come in the order of their offsets; partitions alternate in no
// particular order unless ByTime is set. Markers and aborted transactions are not yielded, nor are
// records that compaction, DeleteRecords or retention removes before the reader gets there.
//
// An error ends the sequence: *ConfigError, replication.ErrUnknownTopic, ErrTopicReplaced,
// *PartitionError, and ctx's error, so that a sequence without an error is a complete one. What
// elections bring, such as a partition without a leader, is one only after ten seconds.
// The caller owns the records. Keeping one keeps the buffer of its fetch alive: Clone it instead.
// The sequence can be ranged over repeatedly and concurrently; each time it reads anew.
func Read(ctx context.Context, b LogBackend, cfg ReadConfig) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		r, err := newReader(b, cfg, false)
		if err == nil {
			err = r.locate(ctx)
		}
		for err == nil && len(r.parts) > 0 {
			// What a new leader does not show yet is awaited.
			if err = r.fetch(ctx, r.missing); err == nil && !r.hand(ctx, yield, &err) {
				return
			}
		}
		if err != nil {
			yield(record.Record{}, err)
		}
	}
}

// Follow is Read that goes on at the end: it waits for records to come, and for partitions to be
// added, which are read from their first record. When ctx ends, the sequence ends without an error.
// Other errors are those of Read, and replication.ErrClosed when the cluster is closed.
func Follow(ctx context.Context, b LogBackend, cfg ReadConfig) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		r, err := newReader(b, cfg, true)
		if err == nil {
			err = r.locate(ctx)
		}
		if err == nil {
			var more bool
			if more, err = r.follow(ctx, yield); !more {
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			yield(record.Record{}, err)
		}
	}
}

// A reader is one iteration of Read or Follow. It belongs to the goroutine that iterates.
type reader struct {
	b       LogBackend
	cfg     ReadConfig
	follows bool
	id      topic.ID // of the topic; another one has nothing to do with these positions
	version int64    // of the metadata that parts were taken from
	known   int      // partitions that the topic had then
	parts   []*readPart
	request partition.FetchRequest
	missing int // bytes that the next fetch waits for: 1 if the last one found nothing, else 0
}

// A readPart is one partition that is not read to its end.
type readPart struct {
	tp    record.TopicPartition
	next  int64 // offset to fetch from
	end   int64 // exclusive; unused by Follow
	chunk chunk
	asked bool // it is part of the fetch under way

	trouble trouble // why it cannot be read just now

	head     record.Record // with ByTime: the next record to yield
	haveHead bool
}

func newReader(b LogBackend, cfg ReadConfig, follows bool) (*reader, error) {
	switch {
	case cfg.Topic == "":
		return nil, &ConfigError{"Topic", "nothing to read"}
	case cfg.From.kind == resetFail:
		return nil, &ConfigError{"From", "Fail says nothing about where to begin"}
	case cfg.MaxBytes < 0:
		return nil, &ConfigError{"MaxBytes", fmt.Sprintf("%d is negative", cfg.MaxBytes)}
	case cfg.ByTime && follows:
		return nil, &ConfigError{"ByTime", "records yet to come may be older than those that are there"}
	}
	for tp, offset := range cfg.Start {
		if tp.Topic != cfg.Topic || offset < StartReset {
			return nil, &ConfigError{"Start", fmt.Sprintf("%s-%d: offset %d, of topic %s", tp.Topic, tp.Partition, offset, cfg.Topic)}
		}
	}
	setDefault(&cfg.MaxBytes, DefaultReadBytes)
	return &reader{b: b, cfg: cfg, follows: follows}, nil
}

func (r *reader) finished(p *readPart) bool {
	return !r.follows && !p.haveHead && !p.chunk.left() && p.next >= p.end
}

// hand yields what there is until ctx ends; false if the caller wants no more. An error ends up in
// err.
func (r *reader) hand(ctx context.Context, yield func(record.Record, error) bool, err *error) bool {
	if r.cfg.ByTime {
		return r.handByTime(ctx, yield, err)
	}
	for _, p := range r.parts {
		for {
			if *err = r.advance(p); *err != nil {
				return true
			}
			if !p.haveHead {
				break
			}
			if *err = ctx.Err(); *err != nil {
				return true
			}
			p.haveHead = false
			if !yield(p.head, nil) {
				return false
			}
		}
	}
	r.parts = slices.DeleteFunc(r.parts, r.finished)
	return true
}

// handByTime yields the oldest record as long as every partition that is not at its end has one.
func (r *reader) handByTime(ctx context.Context, yield func(record.Record, error) bool, err *error) bool {
	for {
		for _, p := range r.parts {
			if *err = r.advance(p); *err != nil {
				return true
			}
		}
		r.parts = slices.DeleteFunc(r.parts, r.finished)
		if len(r.parts) == 0 || slices.ContainsFunc(r.parts, func(p *readPart) bool { return !p.haveHead }) {
			return true
		}
		first := slices.MinFunc(r.parts, func(a, b *readPart) int {
			return cmp.Or(a.head.Timestamp.Compare(b.head.Timestamp), cmp.Compare(a.tp.Partition, b.tp.Partition))
		})
		if *err = ctx.Err(); *err != nil {
			return true
		}
		first.haveHead = false
		if !yield(first.head, nil) {
			return false
		}
	}
}

// advance makes the next record of a partition its head, if it has one.
func (r *reader) advance(p *readPart) error {
	if p.haveHead || !p.chunk.left() {
		return nil
	}
	ok, err := p.chunk.record(p.tp, &p.head)
	switch {
	case err != nil:
		return &PartitionError{p.tp, p.next, err}
	case !ok:
		p.next = max(p.next, p.chunk.next)
		p.chunk = chunk{}
	case !r.follows && p.head.Offset >= p.end:
		p.next, p.chunk = p.end, chunk{}
	default:
		p.next, p.haveHead = p.head.Offset+1, true
	}
	return nil
}
