package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

const (
	copyReadBytes          = 50 << 20 // of a response without a limit of its own
	copyReadPartitionBytes = 1 << 20
)

// OpenSession implements consumer.Opener: a member of a group needs a session at the source.
func (c *Copy) OpenSession(ctx context.Context, s consumer.Session) (consumer.LogBackend, func(), error) {
	o, ok := c.source.(consumer.Opener)
	if !ok || s.Group == "" {
		return c, func() {}, nil
	}
	b, end, err := o.OpenSession(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	groups, ok := b.(consumer.ConsumerGroupBackend)
	if !ok {
		end()
		return nil, nil, errors.New("mirror: the source has no groups")
	}
	return copySession{consumer.LogBackend(c), groups}, end, nil
}

// A copySession reads from a copy, and uses a session of the source for its group.
type copySession struct {
	consumer.LogBackend
	consumer.ConsumerGroupBackend
}

// Metadata describes copied topics, all if none is named. Their only broker is the copy.
func (c *Copy) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	if c.closing.Err() != nil {
		return replication.Metadata{}, replication.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	const self = 1
	md := replication.Metadata{
		Version: c.version, ClusterID: c.state.ClusterID, Controller: self, Brokers: []replication.Broker{{ID: self}}, Topics: map[string]replication.TopicMetadata{},
	}
	if len(topics) == 0 {
		for _, t := range c.state.Topics {
			topics = append(topics, t.Name)
		}
	}
	for _, name := range topics {
		t := replication.TopicMetadata{Name: name}
		if known := c.state.topic(name); known == nil {
			t.Err = c.unknown(name)
		} else {
			t.ID = known.ID
			for i := range known.Partitions {
				part := c.parts[record.TopicPartition{Topic: name, Partition: int32(i)}]
				if part == nil {
					break // it is about to be opened
				}
				t.Partitions = append(t.Partitions, replication.PartitionMetadata{Leader: self, LeaderEpoch: part.epoch, Replicas: []int32{self}, ISR: []int32{self}})
			}
		}
		md.Topics[name] = t
	}
	return md, ctx.Err()
}

// WaitMetadata waits until the copy has other topics, partitions or leader epochs than after.
func (c *Copy) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	for {
		c.mu.Lock()
		version, changed := c.version, c.changed
		c.mu.Unlock()
		if version > after {
			return version, nil
		}
		select {
		case <-changed:
		case <-c.closing.Done():
			return 0, replication.ErrClosed
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// ListOffsets looks offsets up in the copy. Latest is the end of the copied records.
func (c *Copy) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	found := map[record.TopicPartition]partition.OffsetResult{}
	for tp, spec := range at {
		part, err := c.find(tp)
		var res partition.OffsetResult
		if err == nil {
			res, err = part.p.ListOffsetFollower(spec, iso, c.epochOf(part))
		}
		if err != nil {
			res = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: err}
		}
		found[tp] = res
	}
	return found, ctx.Err()
}

func (c *Copy) epochOf(part *copied) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return part.epoch
}

// Fetch reads from the copy, as a broker's Fetch. If the copy has not reached a position, the reader
// waits, unless the source responds that it does not have it either. Without a source such a
// position is out of range.
func (c *Copy) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	f := copyFetch{c: c, req: req}
	var timeout <-chan time.Time
	for {
		if c.closing.Err() != nil {
			return nil, replication.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		resp, size, urgent := f.read()
		if size == 0 && !urgent && len(f.ahead) > 0 && !f.asked {
			f.asked = true
			urgent = f.askSource(ctx, resp)
		}
		if urgent || size >= max(req.MinBytes, 1) || req.MaxWait <= 0 || len(req.Partitions) == 0 {
			return resp, nil
		}
		if timeout == nil {
			t := time.NewTimer(req.MaxWait)
			defer t.Stop()
			timeout = t.C
		}
		woken := make(chan struct{})
		w := partition.NewWaiter(max(req.MinBytes, 1)-size, req.Isolation, func() { close(woken) })
		for i, part := range f.parts {
			part.p.WatchFollower(max(f.bounds[i], req.Partitions[i].Offset), w)
		}
		var err error
		select {
		case <-woken:
		case <-timeout:
			w.Cancel()
			return resp, nil
		case <-c.closing.Done():
			err = replication.ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
		w.Cancel()
		if err != nil {
			return nil, err
		}
	}
}

// copyFetch is one fetch in progress.
type copyFetch struct {
	c      *Copy
	req    *partition.FetchRequest
	parts  []*copied // of the last read
	bounds []int64   // from where on there may be something new
	ahead  []int     // partitions whose position the copy has not reached
	asked  bool      // their ends at the source were looked up
}

// askSource looks up the ends of the partitions at the source, and sets the errors of positions that
// it does not have. It reports whether there are any.
func (f *copyFetch) askSource(ctx context.Context, resp *partition.FetchResponse) (any bool) {
	at := map[record.TopicPartition]partition.OffsetSpec{}
	for _, i := range f.ahead {
		at[f.parts[i].tp] = partition.Latest
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ends, err := f.c.source.ListOffsets(ctx, at, partition.ReadUncommitted)
	if err != nil {
		return false // it may have them
	}
	for _, i := range f.ahead {
		end, ok := ends[f.parts[i].tp]
		if ok && end.Err == nil && f.req.Partitions[i].Offset > end.Offset {
			any = true
			failFetch(&resp.Partitions[i], fmt.Errorf("read %s-%d at %d: %w: the source ends at %d", f.parts[i].tp.Topic, f.parts[i].tp.Partition,
				f.req.Partitions[i].Offset, partition.ErrOffsetOutOfRange, end.Offset))
		}
	}
	return any
}

func failFetch(got *partition.FetchedPartition, err error) {
	got.Err = err
	got.HighWatermark, got.LastStableOffset, got.LogStartOffset, got.LeaderEpoch = -1, -1, -1, -1
}

// read reads the available records. urgent reports an error: the response must not wait.
func (f *copyFetch) read() (resp *partition.FetchResponse, size int, urgent bool) {
	n := len(f.req.Partitions)
	resp = &partition.FetchResponse{Partitions: make([]partition.FetchedPartition, n)}
	f.parts, f.bounds, f.ahead = make([]*copied, n), make([]int64, n), f.ahead[:0]
	left := f.req.MaxBytes
	if left <= 0 {
		left = copyReadBytes
	}
	first := 0
	if n > 0 && !f.req.InOrder {
		f.c.mu.Lock()
		first = f.c.turn % n
		f.c.mu.Unlock()
	}
	buf, starved := f.req.Buf[:0], false
	for i := range n {
		at := (first + i) % n
		want, got := &f.req.Partitions[at], &resp.Partitions[at]
		got.TopicPartition = want.TopicPartition
		limit := min(left, want.MaxBytes)
		if want.MaxBytes <= 0 {
			limit = min(left, copyReadPartitionBytes)
		}
		if size > 0 && limit <= 0 {
			limit = -1
		}
		if err := f.readPartition(at, limit, size == 0, buf, got); err != nil {
			failFetch(got, err)
			urgent = true
			continue
		}
		starved = starved || len(got.Bytes) == 0 && want.Offset < f.bounds[at]
		size += len(got.Bytes)
		left -= len(got.Bytes)
		if k := len(got.Bytes); k > 0 && cap(buf) >= k && &got.Bytes[0] == &buf[:1][0] {
			buf = buf[k:k:cap(buf)]
		}
	}
	if starved && !f.req.InOrder {
		f.c.mu.Lock()
		f.c.turn++
		f.c.mu.Unlock()
	}
	return resp, size, urgent
}

// readPartition reads one partition. A batch larger than the limit is returned only if it is the
// first one of the response.
func (f *copyFetch) readPartition(at, limit int, first bool, buf []byte, got *partition.FetchedPartition) error {
	want := &f.req.Partitions[at]
	part, err := f.c.find(want.TopicPartition)
	if err != nil {
		return err
	}
	f.parts[at] = part
	if want.TopicID != ([16]byte{}) && !part.id.IsZero() && part.id != want.TopicID {
		return partition.ErrInconsistentTopicID
	}
	f.c.mu.Lock()
	epoch := part.epoch
	f.c.mu.Unlock()
	if want.Offset > part.p.HighWatermark() && f.c.source != nil {
		f.ahead, f.bounds[at] = append(f.ahead, at), want.Offset
		got.HighWatermark, got.LastStableOffset, got.LogStartOffset, got.LeaderEpoch = -1, -1, part.p.LogStartOffset(), epoch
		return nil
	}
	res, err := part.p.ReadFollower(partition.ReadRequest{
		Offset: want.Offset, MaxBytes: max(limit, 1), Isolation: f.req.Isolation, CurrentLeaderEpoch: want.CurrentLeaderEpoch, Partial: f.req.Partial, Buf: buf,
	}, epoch)
	if want.LastFetchedEpoch >= 0 && (err == nil || errors.Is(err, partition.ErrOffsetOutOfRange)) {
		if truncated := part.p.CheckLastFetched(want.LastFetchedEpoch, want.Offset); truncated != nil {
			return truncated
		}
	}
	if err != nil {
		return err
	}
	if !first && len(res.Bytes) > limit {
		res.Bytes, res.Aborted = nil, nil
	}
	f.bounds[at] = res.Bound(f.req.Isolation)
	got.HighWatermark, got.LastStableOffset, got.LogStartOffset = res.HighWatermark, res.LastStableOffset, res.LogStartOffset
	got.LeaderEpoch, got.Bytes = res.LeaderEpoch, res.Bytes
	if got.Aborted = res.Aborted; got.Aborted == nil && f.req.Isolation == partition.ReadCommitted {
		got.Aborted = []partition.AbortedTxn{}
	}
	return nil
}

// noGroups are the groups of a copy without a source.
type noGroups struct{}

func (noGroups) Join(context.Context, group.JoinRequest) (group.JoinResponse, error) {
	return group.JoinResponse{}, ErrNoSource
}

func (noGroups) Sync(context.Context, group.SyncRequest) (group.SyncResponse, error) {
	return group.SyncResponse{}, ErrNoSource
}

func (noGroups) Heartbeat(context.Context, group.HeartbeatRequest) error { return ErrNoSource }

func (noGroups) Leave(context.Context, group.LeaveRequest) ([]error, error) { return nil, ErrNoSource }

func (noGroups) CommitOffsets(context.Context, group.CommitRequest) (map[record.TopicPartition]error, error) {
	return nil, ErrNoSource
}

func (noGroups) FetchOffsets(context.Context, string, []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	return nil, ErrNoSource
}

func (noGroups) FetchStableOffsets(context.Context, string, []record.TopicPartition) (map[record.TopicPartition]record.Committed, map[record.TopicPartition]error, error) {
	return nil, nil, ErrNoSource
}

func (noGroups) Group(context.Context, string) (group.Info, error) { return group.Info{}, ErrNoSource }

func (noGroups) ConsumerHeartbeat(context.Context, group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	return group.ConsumerHeartbeatResponse{}, ErrNoSource
}

func (noGroups) NotifyRebalanced(string, chan<- struct{}) (stop func()) { return func() {} }
