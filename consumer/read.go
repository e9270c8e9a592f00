package consumer

import (
	"bytes"
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

// ErrTopicReplaced is returned when a topic is deleted during Read or Follow. A topic that was
// created under the same name since is a different one with its own offsets, and nothing of it was
// read.
var ErrTopicReplaced = errors.New("consumer: topic was deleted while it was read")

// DefaultReadBytes is the default of ReadConfig.MaxBytes.
const DefaultReadBytes = 8 << 20

// ReadConfig describes the records that Read and Follow return. Only Topic is required.
type ReadConfig struct {
	Topic      string
	Partitions []int32 // nil: all; for Follow also partitions added later

	// From is the starting offset: Earliest (the zero Reset), Latest or At. Fail is not useful
	// here.
	From Reset
	// Start overrides From for some partitions: an offset, StartEarliest, StartLatest, or
	// StartReset for From.
	Start record.Offsets

	// Key, if not nil, selects the records with this key, byte for byte. An empty, non-nil Key
	// selects records whose key is empty. Every partition is read: set Partitions if the partition
	// of the key is known.
	Key []byte
	// Last, if not 0, selects the last so many records of each partition at the start of the
	// iteration: only those with Key, and none before From. They are read backwards, so that the
	// rest of the log is read only if Key is rare. They are held in memory in addition to MaxBytes.
	// Follow continues after them. A negative number is a *ConfigError.
	Last int

	Isolation Isolation // the zero value is ReadCommitted

	// Rack is the location of the reader, as in Config. The leader determines where Read ends.
	Rack string

	// ByTime makes Read merge the partitions by timestamp. Each partition stays in offset order, so
	// the result is sorted only if each partition is. Follow rejects it, since a later record may
	// have an earlier timestamp.
	ByTime bool

	// MaxBytes bounds the memory used, in bytes of stored batches. One batch is held even if it is
	// larger; with ByTime, one batch of each partition. 0 means 8 MiB.
	MaxBytes int
}

// Read yields the records of a topic up to its end at the start of the iteration: the high
// watermark, or with ReadCommitted the last stable offset. It needs no group and commits nothing. A
// transaction is durable when its commit returns, and readers see it a moment later.
//
// The records of a partition arrive in offset order. Partitions alternate in no particular order
// unless ByTime is set. Control batches and aborted transactions are skipped. So are records that
// compaction, DeleteRecords or retention removes before they are read.
//
// An error ends the sequence: *ConfigError, replication.ErrUnknownTopic, ErrTopicReplaced,
// *PartitionError, or ctx's error. A sequence without an error is therefore complete. Conditions
// that an election brings, such as a partition without a leader, become an error only after ten
// seconds. The caller owns the records. Keeping one keeps the buffer of its fetch alive: Clone it
// instead. The sequence can be ranged over repeatedly and concurrently; each iteration reads the
// topic again, in a session of its own if b is an Opener.
func Read(ctx context.Context, b LogBackend, cfg ReadConfig) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		r, end, err := openReader(ctx, b, cfg, false)
		defer end()
		if err == nil {
			err = r.locate(ctx)
		}
		if err == nil && r.cfg.Last > 0 {
			var more bool
			if more, err = r.last(ctx, yield); !more {
				return
			}
			r.parts = nil
		}
		for err == nil && len(r.parts) > 0 {
			// Wait for records that a new leader does not return yet.
			if err = r.fetch(ctx, r.missing); err == nil && !r.hand(ctx, yield, &err) {
				return
			}
		}
		if err != nil {
			yield(record.Record{}, err)
		}
	}
}

// Follow is Read that does not stop at the end: it waits for new records, and for added partitions,
// which it reads from their first record. When ctx ends, the sequence ends without an error. Other
// errors are those of Read, and replication.ErrClosed when the cluster is closed.
func Follow(ctx context.Context, b LogBackend, cfg ReadConfig) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		r, end, err := openReader(ctx, b, cfg, true)
		defer end()
		if err == nil {
			err = r.locate(ctx)
		}
		more := true
		if err == nil && r.cfg.Last > 0 {
			if more, err = r.last(ctx, yield); !more {
				return
			}
		}
		if err == nil {
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
	id      topic.ID // of the topic; positions do not apply to another one
	version int64    // of the metadata that parts were taken from
	known   int      // partitions that the topic had then
	parts   []*readPart
	request partition.FetchRequest
	missing int // bytes that the next fetch waits for: 1 if the last one found nothing, else 0
}

// A readPart is one partition that is not read to its end yet.
type readPart struct {
	tp        record.TopicPartition
	next      int64 // offset to fetch from
	epoch     int32 // leader epoch of the last batch read below next; -1: none
	leader    int32 // leader epoch as of the last fetch; -1: not known
	end       int64 // exclusive; unused by Follow
	chunk     chunk
	requested bool // it is part of the current fetch

	trouble trouble // reason why it cannot be read at present

	head     record.Record // with ByTime: the next record to yield
	haveHead bool
}

// openReader returns a reader with a session of its own. The caller calls end, also after an error.
func openReader(ctx context.Context, b LogBackend, cfg ReadConfig, follows bool) (r *reader, end func(), err error) {
	end = func() {}
	if r, err = newReader(b, cfg, follows); err == nil {
		r.b, end, err = openSession(ctx, b, Session{Rack: cfg.Rack})
	}
	return r, end, err
}

// newReadPart returns a partition to be read from next on.
func newReadPart(tp record.TopicPartition, next, end int64) *readPart {
	return &readPart{tp: tp, next: next, end: end, epoch: -1, leader: -1}
}

func newReader(b LogBackend, cfg ReadConfig, follows bool) (*reader, error) {
	switch {
	case cfg.Topic == "":
		return nil, &ConfigError{"Topic", "nothing to read"}
	case cfg.From.kind == resetFail:
		return nil, &ConfigError{"From", "Fail says nothing about where to begin"}
	case cfg.MaxBytes < 0:
		return nil, &ConfigError{"MaxBytes", fmt.Sprintf("%d is negative", cfg.MaxBytes)}
	case cfg.Last < 0:
		return nil, &ConfigError{"Last", fmt.Sprintf("%d is negative", cfg.Last)}
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

// hand yields fetched records until ctx ends. It returns false if the caller stops. An error is
// stored in err.
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

// advance makes the next selected record of a partition its head, if there is one.
func (r *reader) advance(p *readPart) error {
	for !p.haveHead && p.chunk.left() {
		ok, err := p.chunk.record(p.tp, &p.head)
		switch {
		case err != nil:
			return &PartitionError{p.tp, p.next, err}
		case !ok:
			p.next, p.epoch = max(p.next, p.chunk.next), max(p.epoch, p.chunk.last)
			p.chunk = chunk{}
		case !r.follows && p.head.Offset >= p.end:
			p.next, p.chunk = p.end, chunk{}
		default:
			p.next, p.haveHead = p.head.Offset+1, r.wants(&p.head)
		}
	}
	return nil
}

// wants reports whether a record has the selected key.
func (r *reader) wants(rec *record.Record) bool {
	return r.cfg.Key == nil || rec.Key != nil && bytes.Equal(rec.Key, r.cfg.Key)
}
