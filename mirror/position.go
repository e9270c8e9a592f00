package mirror

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// positionFormat is the version of positionValue.
const positionFormat = 1

// A positionKey is the key of a position, as JSON.
type positionKey struct {
	Mirror string `json:"mirror"`
	Topic  string `json:"topic"` // of the source
}

// A positionValue is the value of a position, as JSON. All partitions of a topic are in one record,
// so that one record has to be found at the start.
type positionValue struct {
	Format   int      `json:"format"`
	Source   string   `json:"source"` // cluster id
	SourceID string   `json:"sourceTopicId"`
	Target   string   `json:"target"` // topic
	Run      string   `json:"run"`    // of Run or Drain, which wrote it; random
	TargetID string   `json:"targetTopicId"`
	Next     []int64  `json:"next"`  // by partition: offset of the next record to forward
	Epochs   []int32  `json:"epoch"` // by partition: leader epoch of the record before; -1: unknown
	Last     []int64  `json:"last"`  // by partition: offset of the last forwarded record; -1: none
	Sums     []uint64 `json:"sum"`   // by partition: fingerprint of that record
}

// positionPartition is the partition of the position topic that has all positions, whatever the
// number of its partitions is.
const positionPartition = 0

func (f *Forward) positionKey(source string) ([]byte, error) {
	return json.Marshal(positionKey{f.cfg.ID, source})
}

// positionRecord returns the record with a position of a topic.
func (e *engine) positionRecord(fl *flow, next []reached) (record.Record, error) {
	key, err := e.positionKey(fl.source)
	if err != nil {
		return record.Record{}, err
	}
	v := positionValue{Format: positionFormat, Source: e.source.ClusterID(), SourceID: fl.id.String(), Target: fl.target, TargetID: fl.targetID.String(), Run: e.id}
	for _, p := range next {
		v.Next, v.Epochs, v.Last, v.Sums = append(v.Next, p.next), append(v.Epochs, p.epoch), append(v.Last, p.last), append(v.Sums, p.sum)
	}
	value, err := json.Marshal(v)
	if err != nil {
		return record.Record{}, err
	}
	return record.Record{Topic: e.cfg.PositionTopic, Key: key, Value: value}.To(positionPartition), nil
}

// readPosition returns the last committed position of a topic, nil if there is none.
//
// Read ends at the last stable offset. A transaction of another mirror that is open can hold that
// below a position of this one, so the caller first calls awaitPositions.
func (f *Forward) readPosition(ctx context.Context, source string) (*positionValue, error) {
	key, err := f.positionKey(source)
	if err != nil {
		return nil, err
	}
	var last *record.Record
	for r, err := range consumer.Read(ctx, f.target, consumer.ReadConfig{
		Topic: f.cfg.PositionTopic, Partitions: []int32{positionPartition}, Key: key, Last: 1,
	}) {
		if err != nil {
			return nil, fmt.Errorf("read the position: %w", err)
		}
		last = &r
	}
	if last == nil {
		return nil, nil
	}
	v := &positionValue{}
	if err := json.Unmarshal(last.Value, v); err != nil || v.Format != positionFormat || len(v.Next) != len(v.Epochs) || len(v.Next) != len(v.Last) || len(v.Next) != len(v.Sums) {
		return nil, f.stop(source, -1, -1, fmt.Errorf("%w: record at offset %d of %s: %q", ErrBadPosition, last.Offset, f.cfg.PositionTopic, last.Value))
	}
	return v, nil
}

// awaitPositions waits until everything can be read that this mirror's predecessor committed in the
// topic of positions. Its transactions ended when the transactional id was acquired.
func (f *Forward) awaitPositions(ctx context.Context) error {
	return f.awaitStable(ctx, record.TopicPartition{Topic: f.cfg.PositionTopic, Partition: positionPartition})
}

// awaitStable waits until every transaction has ended that is open now in a partition of the
// target.
func (f *Forward) awaitStable(ctx context.Context, tp record.TopicPartition) error {
	end, err := offsetOf(ctx, f.target, tp, partition.Latest, partition.ReadUncommitted)
	if err != nil {
		return err
	}
	for wait, began, told := 5*time.Millisecond, time.Now(), false; ; wait = min(2*wait, time.Second) {
		stable, err := offsetOf(ctx, f.target, tp, partition.Latest, partition.ReadCommitted)
		if err != nil {
			return err
		}
		if stable >= end {
			return nil
		}
		if !told && time.Since(began) > 5*time.Second {
			told = true
			f.cfg.Logger.Info("waiting for another transaction in a topic of the target", "mirror", f.cfg.ID, "topic", tp.Topic)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// begin returns the first position of a topic.
func (f *Forward) begin(ctx context.Context, fl *flow) error {
	starts, err := f.startOffsets(fl)
	if err != nil {
		return err
	}
	if starts == nil {
		ends, err := offsets(ctx, f.target, fl.target, len(fl.reached), partition.Latest, partition.ReadUncommitted)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if end > 0 {
				return f.stop(fl.target, int32(p), -1, ErrNoPosition)
			}
		}
	}
	earliest, err := offsets(ctx, f.source, fl.source, len(fl.reached), partition.Earliest, partition.ReadCommitted)
	if err != nil {
		return err
	}
	latest, err := offsets(ctx, f.source, fl.source, len(fl.reached), partition.Latest, partition.ReadCommitted)
	if err != nil {
		return err
	}
	at := make([]reached, len(fl.reached))
	for p := range at {
		next := earliest[p]
		if starts != nil {
			switch next = starts[p]; next {
			case consumer.StartEarliest:
				next = earliest[p]
			case consumer.StartLatest:
				next = latest[p]
			}
		}
		if next > latest[p] {
			return configError("Start", fmt.Sprint(next), "partition %s-%d ends at offset %d", fl.source, p, latest[p])
		}
		at[p] = reached{next: next, epoch: -1, last: -1}
	}
	f.setReached(fl, at)
	return nil
}

func (f *Forward) setReached(fl *flow, at []reached) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.reached = at
}

// startOffsets returns the offsets of Start by partition, nil if it has none for the topic.
func (f *Forward) startOffsets(fl *flow) ([]int64, error) {
	n := 0
	for tp := range f.cfg.Start {
		if tp.Topic == fl.source {
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	starts := make([]int64, len(fl.reached))
	for p := range starts {
		offset, ok := f.cfg.Start[record.TopicPartition{Topic: fl.source, Partition: int32(p)}]
		if !ok {
			return nil, configError("Start", fl.source, "has no offset for partition %d", p)
		}
		starts[p] = offset
	}
	if n > len(starts) {
		return nil, configError("Start", fl.source, "has offsets for %d partitions, and the topic has %d", n, len(starts))
	}
	return starts, nil
}

// belongs returns an error if a stored position is that of another source or target topic.
func (f *Forward) belongs(fl *flow, v *positionValue) error {
	switch source := f.source.ClusterID(); {
	case v.Source != source:
		return f.stop(fl.source, -1, -1, fmt.Errorf("%w: %q, and this one is %q", ErrOtherSource, v.Source, source))
	case v.Target != fl.target:
		return f.stop(fl.source, -1, -1, fmt.Errorf("%w: it is of target topic %q, and this one is %q", ErrBadPosition, v.Target, fl.target))
	}
	return nil
}

// resume checks a stored position and continues there.
func (f *Forward) resume(ctx context.Context, fl *flow, v *positionValue) error {
	switch {
	case len(v.Next) > len(fl.reached) || differs(v.SourceID, fl.id):
		return f.stop(fl.source, -1, -1, fmt.Errorf("%w at the source", ErrTopicReplaced))
	case differs(v.TargetID, fl.targetID):
		return f.stop(fl.target, -1, -1, fmt.Errorf("%w at the target", ErrTopicReplaced))
	}
	at := make([]reached, len(fl.reached))
	for p := range at {
		// A partition that was added since then begins at its first record.
		at[p] = reached{epoch: -1, last: -1}
		if p < len(v.Next) {
			at[p] = reached{next: v.Next[p], epoch: v.Epochs[p], last: v.Last[p], sum: v.Sums[p]}
		}
	}
	f.setReached(fl, at)
	return f.checkSource(ctx, fl)
}

// differs reports whether a stored topic id is that of another topic. A zero id is not known.
func differs(stored string, id topic.ID) bool {
	return id != (topic.ID{}) && stored != (topic.ID{}).String() && stored != id.String()
}

// replaced reports whether is is the id of another topic than was. A zero id is not known.
func replaced(was, is topic.ID) bool { return was != (topic.ID{}) && is != (topic.ID{}) && was != is }

// checkSource returns an error if the source no longer has the records from the position on, or
// has other ones before it.
func (f *Forward) checkSource(ctx context.Context, fl *flow) error {
	earliest, err := offsets(ctx, f.source, fl.source, len(fl.reached), partition.Earliest, partition.ReadUncommitted)
	if err != nil {
		return err
	}
	latest, err := offsets(ctx, f.source, fl.source, len(fl.reached), partition.Latest, partition.ReadUncommitted)
	if err != nil {
		return err
	}
	for p, at := range fl.reached {
		switch {
		case at.next < earliest[p]:
			return f.gap(fl.source, int32(p), at.next, earliest[p])
		case at.next > latest[p]:
			return f.stop(fl.source, int32(p), at.next, fmt.Errorf("%w: it ends at offset %d", ErrTruncated, latest[p]))
		case at.epoch >= 0:
			if err := f.checkEpoch(ctx, fl, int32(p)); err != nil {
				return err
			}
		}
		if at.last >= earliest[p] {
			if err := f.checkRecord(ctx, fl, int32(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRecord compares the last forwarded record with the source's log. A source that was restored
// from an older backup, and written to since, has another one at its offset in the same leader
// epoch.
func (f *Forward) checkRecord(ctx context.Context, fl *flow, p int32) error {
	at := fl.reached[p]
	for r, err := range consumer.Read(ctx, f.source, consumer.ReadConfig{
		Topic: fl.source, Partitions: []int32{p}, Start: record.Offsets{{Topic: fl.source, Partition: p}: at.last}, MaxBytes: 1,
	}) {
		switch {
		case err != nil:
			return fmt.Errorf("read the last forwarded record of %s-%d: %w", fl.source, p, err)
		case r.Offset == at.last && fingerprint(&r) != at.sum: // another offset: it was compacted
			return f.stop(fl.source, p, at.next, fmt.Errorf("%w: it has another record at offset %d", ErrTruncated, at.last))
		}
		break
	}
	return nil
}

// fingerprint returns a hash of a record.
func fingerprint(r *record.Record) uint64 {
	h := fnv.New64a()
	var size [8]byte
	part := func(n int64, b []byte) {
		binary.BigEndian.PutUint64(size[:], uint64(n))
		h.Write(size[:])
		h.Write(b)
	}
	part(r.Timestamp.UnixMilli(), nil)
	part(int64(len(r.Key)), r.Key)
	part(int64(len(r.Value)), r.Value)
	for _, header := range r.Headers {
		part(int64(len(header.Key)), []byte(header.Key))
		part(int64(len(header.Value)), header.Value)
	}
	return h.Sum64()
}

func (f *Forward) gap(source string, p int32, next, earliest int64) error {
	return f.stop(source, p, next, fmt.Errorf("%w: it begins at offset %d", ErrGap, earliest))
}

// checkEpoch compares the leader epoch of the last forwarded record with the source's log: after an
// unclean election the log may have other records below the position (KIP-320).
func (f *Forward) checkEpoch(ctx context.Context, fl *flow, p int32) error {
	at := fl.reached[p]
	req := partition.FetchRequest{MaxBytes: 1, Partitions: []partition.FetchPartition{{
		TopicPartition: record.TopicPartition{Topic: fl.source, Partition: p}, TopicID: fl.id, Offset: at.next, MaxBytes: 1,
		CurrentLeaderEpoch: -1, LastFetchedEpoch: at.epoch,
	}}}
	for {
		resp, err := f.source.Fetch(ctx, &req)
		switch {
		case err != nil:
			return fmt.Errorf("fetch from %s-%d: %w", fl.source, p, err)
		case len(resp.Partitions) != 1:
			return fmt.Errorf("fetch from %s-%d: the response has %d partitions", fl.source, p, len(resp.Partitions))
		}
		switch got := resp.Partitions[0]; {
		case errors.Is(got.Err, ErrTruncated):
			return f.stop(fl.source, p, at.next, got.Err)
		case got.Err != nil:
			return fmt.Errorf("fetch from %s-%d: %w", fl.source, p, got.Err)
		case got.HighWatermark >= 0:
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) { // the leader has not responded yet
			return ctx.Err()
		}
	}
}

// offsetOf looks up the offset of one partition.
func offsetOf(ctx context.Context, b consumer.LogBackend, tp record.TopicPartition, spec partition.OffsetSpec, iso partition.Isolation) (int64, error) {
	got, err := lookUp(ctx, b, map[record.TopicPartition]partition.OffsetSpec{tp: spec}, iso)
	return got[tp], err
}

// offsets looks up the offsets of all n partitions of a topic.
func offsets(ctx context.Context, b consumer.LogBackend, name string, n int, spec partition.OffsetSpec, iso partition.Isolation) ([]int64, error) {
	query := make(map[record.TopicPartition]partition.OffsetSpec, n)
	for p := range n {
		query[record.TopicPartition{Topic: name, Partition: int32(p)}] = spec
	}
	got, err := lookUp(ctx, b, query, iso)
	if err != nil {
		return nil, err
	}
	result := make([]int64, n)
	for tp, offset := range got {
		result[tp.Partition] = offset
	}
	return result, nil
}

// lookUp looks offsets up. Leaders get several attempts, since a leader may just have changed.
func lookUp(ctx context.Context, b consumer.LogBackend, query map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (record.Offsets, error) {
	const attempts = 5
	found := make(record.Offsets, len(query))
	for attempt := 1; ; attempt++ {
		got, err := b.ListOffsets(ctx, query, iso)
		if err != nil {
			return nil, fmt.Errorf("list offsets: %w", err)
		}
		missing := make(map[record.TopicPartition]partition.OffsetSpec)
		for tp, spec := range query {
			r, ok := got[tp]
			if !ok {
				r.Err = partition.ErrTimeout
			}
			if r.Err != nil {
				missing[tp], err = spec, fmt.Errorf("list offsets of %s-%d: %w", tp.Topic, tp.Partition, r.Err)
				continue
			}
			found[tp] = max(r.Offset, 0)
		}
		if len(missing) == 0 {
			return found, nil
		}
		if attempt == attempts || isFinal(err) {
			return nil, err
		}
		if query = missing; !sleep(ctx, 100*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}
