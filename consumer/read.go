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
	"github.com/stratalog/strata/replication"
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
// *PartitionError, and ctx's error, so that a sequence without an error is a complete one.
// The caller owns the records. Keeping one keeps the buffer of its fetch alive: Clone it instead.
// The sequence can be ranged over repeatedly and concurrently; each time it reads anew.
func Read(ctx context.Context, b LogBackend, cfg ReadConfig) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		r, err := newReader(b, cfg, false)
		if err == nil {
			err = r.locate(ctx)
		}
		for err == nil && len(r.parts) > 0 {
			if err = r.fetch(ctx, 0); err == nil && !r.hand(ctx, yield, &err) {
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
}

// A readPart is one partition that is not read to its end.
type readPart struct {
	tp    record.TopicPartition
	next  int64 // offset to fetch from
	end   int64 // exclusive; unused by Follow
	chunk chunk
	asked bool // it is part of the fetch under way

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

// locate finds the partitions to read, and where they begin and end.
func (r *reader) locate(ctx context.Context) error {
	md, version, err := r.metadata(ctx)
	if err != nil {
		return fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	r.version, r.id, r.known = version, md.ID, len(md.Partitions)
	wanted := slices.Clone(r.cfg.Partitions)
	if wanted == nil {
		for p := range md.Partitions {
			wanted = append(wanted, int32(p))
		}
	}
	slices.Sort(wanted)
	for _, p := range slices.Compact(wanted) {
		if p < 0 || int(p) >= len(md.Partitions) {
			return fmt.Errorf("consumer: read %s-%d: %w", r.cfg.Topic, p, replication.ErrUnknownTopic)
		}
		r.parts = append(r.parts, &readPart{tp: record.TopicPartition{Topic: r.cfg.Topic, Partition: p}})
	}
	if err := r.place(ctx, r.parts, r.cfg.From.spec()); err != nil {
		return err
	}
	r.parts = slices.DeleteFunc(r.parts, r.finished)
	return r.sameTopic(ctx)
}

// metadata describes the topic, as of a version of the metadata.
func (r *reader) metadata(ctx context.Context) (t replication.TopicMetadata, version int64, err error) {
	md, err := r.b.Metadata(ctx, r.cfg.Topic)
	if err != nil {
		return t, 0, err
	}
	return md.Topics[r.cfg.Topic], md.Version, md.Topics[r.cfg.Topic].Err
}

// sameTopic returns ErrTopicReplaced unless the topic is still the one that was located. Ids are
// never given twice, so what was asked of the topic's name since locate came from this topic.
func (r *reader) sameTopic(ctx context.Context) error {
	_, _, err := r.again(ctx)
	return err
}

// again is metadata of the topic that was located.
func (r *reader) again(ctx context.Context) (t replication.TopicMetadata, version int64, err error) {
	t, version, err = r.metadata(ctx)
	if errors.Is(err, replication.ErrUnknownTopic) || err == nil && t.ID != r.id {
		err = fmt.Errorf("%w: %s", ErrTopicReplaced, r.cfg.Topic)
	}
	return t, version, err
}

// place finds the ends of parts, and then their beginnings: in that order, so that what comes
// meanwhile is not read.
func (r *reader) place(ctx context.Context, parts []*readPart, from partition.OffsetSpec) error {
	ends, err := r.offsets(ctx, parts, func(*readPart) partition.OffsetSpec { return partition.Latest })
	if err != nil {
		return err
	}
	starts, err := r.offsets(ctx, parts, func(p *readPart) partition.OffsetSpec {
		switch start, ok := r.cfg.Start[p.tp]; {
		case ok && start == StartLatest:
			return partition.Latest
		case ok && start != StartReset: // a real offset cannot lie below the first record
			return partition.Earliest
		}
		return from
	})
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.end = ends[p.tp]
		if p.next = starts[p.tp]; p.next < 0 { // no record is that late
			p.next = p.end
		}
		if start := r.cfg.Start[p.tp]; start > p.end {
			return &PartitionError{p.tp, start, partition.ErrOffsetOutOfRange}
		} else if start > 0 {
			p.next = max(p.next, start)
		}
	}
	return nil
}

// offsets asks for one offset of each partition.
func (r *reader) offsets(ctx context.Context, parts []*readPart, spec func(*readPart) partition.OffsetSpec) (record.Offsets, error) {
	ask := make(map[record.TopicPartition]partition.OffsetSpec, len(parts))
	for _, p := range parts {
		ask[p.tp] = spec(p)
	}
	got, err := r.b.ListOffsets(ctx, ask, r.cfg.Isolation)
	if err != nil {
		return nil, fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	offsets := make(record.Offsets, len(got))
	for _, p := range parts {
		res, ok := got[p.tp]
		if !ok {
			return nil, &PartitionError{p.tp, -1, fmt.Errorf("%w: no offset in the answer", replication.ErrUnknownTopic)}
		}
		if res.Err != nil {
			return nil, r.failed(ctx, p, res.Err)
		}
		offsets[p.tp] = res.Offset
	}
	return offsets, nil
}

// failed is the error of a partition, or that of its topic if this was deleted.
func (r *reader) failed(ctx context.Context, p *readPart, err error) error {
	if gone := r.sameTopic(ctx); gone != nil {
		return gone
	}
	return &PartitionError{p.tp, p.next, err}
}

func (r *reader) finished(p *readPart) bool {
	return !r.follows && !p.haveHead && !p.chunk.left() && p.next >= p.end
}

// fetch gets records for the partitions that have none, and takes those away that are at their end.
func (r *reader) fetch(ctx context.Context, minBytes int) error {
	r.ask(minBytes)
	if len(r.request.Partitions) == 0 {
		return ctx.Err()
	}
	resp, err := r.b.Fetch(ctx, &r.request)
	if err == nil {
		err = r.sameTopic(ctx)
	}
	if err != nil {
		return fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	if len(resp.Partitions) != len(r.request.Partitions) {
		return fmt.Errorf("consumer: read %s: the answer to a fetch is not in the order of the request", r.cfg.Topic)
	}
	empty, i := true, 0
	for _, p := range r.parts {
		if !p.asked {
			continue
		}
		fp := &resp.Partitions[i]
		i++
		if err := r.keep(ctx, p, fp); err != nil {
			return err
		}
		empty = empty && fp.Err == nil && len(fp.Bytes) == 0
	}
	if empty && !r.follows {
		r.giveUpGaps(resp)
	}
	r.parts = slices.DeleteFunc(r.parts, r.finished)
	return ctx.Err()
}

// ask makes the request for the partitions that have nothing to hand out.
func (r *reader) ask(minBytes int) {
	each := r.cfg.MaxBytes
	if r.cfg.ByTime {
		each = max(each/len(r.parts), 1) // all of them are held at the same time
	}
	r.request = partition.FetchRequest{Partitions: r.request.Partitions[:0], Isolation: r.cfg.Isolation, MinBytes: minBytes}
	for _, p := range r.parts {
		if p.asked = !p.haveHead && !p.chunk.left(); p.asked {
			r.request.Partitions = append(r.request.Partitions, partition.FetchPartition{
				TopicPartition: p.tp, Offset: p.next, MaxBytes: min(each, DefaultPartitionBytes), CurrentLeaderEpoch: -1,
			})
			r.request.MaxBytes = min(r.request.MaxBytes+each, r.cfg.MaxBytes)
		}
	}
	if minBytes > 0 {
		r.request.MaxWait = followWait
	}
}

// keep takes what a fetch brought of a partition.
func (r *reader) keep(ctx context.Context, p *readPart, fp *partition.FetchedPartition) error {
	switch {
	case fp.Err == nil:
		if len(fp.Bytes) > 0 {
			p.chunk = newChunk(nil, p.next, fp)
		}
		return nil
	case errors.Is(fp.Err, partition.ErrOffsetOutOfRange): // records were deleted, or have expired
		starts, err := r.offsets(ctx, []*readPart{p}, func(*readPart) partition.OffsetSpec { return partition.Earliest })
		if err != nil {
			return err
		}
		if starts[p.tp] <= p.next {
			return r.failed(ctx, p, fp.Err) // beyond the end: the log has lost records
		}
		p.next = starts[p.tp]
		return nil
	}
	return r.failed(ctx, p, fp.Err)
}

// giveUpGaps ends the partitions of a fetch that found nothing in any of them: the first one that
// has a batch gets it whatever the limits are, so there is none below the ends. Compaction leaves
// such gaps.
func (r *reader) giveUpGaps(resp *partition.FetchResponse) {
	i := 0
	for _, p := range r.parts {
		if p.asked {
			if p.end <= resp.Partitions[i].HighWatermark {
				p.next = p.end
			}
			i++
		}
	}
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
