package replication

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/partition"
)

const (
	// maxFetchBytes is the maximum size of a response, regardless of the request. Kafka:
	// fetch.max.bytes of the broker.
	maxFetchBytes = 57671680
	// defaultPartitionFetchBytes is the maximum for one partition if the request has none.
	defaultPartitionFetchBytes = 1 << 20
)

// fetchRotation is where fetches that cannot return everything begin, so that partitions behind
// large ones are read, too. Moved on by any fetch.
type fetchRotation struct{ n atomic.Uint32 }

// Fetch reads from the leaders of the given partitions. If Config.ReplicaSelector is
// RackAwareSelector and the request has a rack, it reads from a follower in that rack instead. The
// follower must be in sync, have the offset and be readable; otherwise the leader serves the read.
// Fetch returns when MinBytes are available over all partitions together, a partition has an error,
// or MaxWait has passed. It does not poll, and needs one waiter and one timer for any number of
// partitions.
//
// Limits are Kafka's. MaxBytes of the request (at most 55 MiB, which is the default) is reduced by
// each partition's bytes. A partition is read up to its own MaxBytes (default 1 MiB). The first
// partition with data returns at least one whole batch of any size; the others return only batches
// that fit. Partitions are read in the order of the request. If a limit left partitions unread,
// later fetches start one place further on in their list, so that no partition starves behind busy
// ones; InOrder prevents that. The response has the order of the request.
//
// Each partition has its own error: ErrUnknownTopic, ErrNotLeader, and those of partition.Read.
// Fetch itself returns only the context's error and ErrClosed. Reading a partition without records
// creates no files.
func (c *Cluster) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	return c.fetch(ctx, req, anyBroker)
}

func (c *Cluster) fetch(ctx context.Context, req *partition.FetchRequest, asked int32) (*partition.FetchResponse, error) {
	c.stats.fetches.Add(1)
	f := fetch{c: c, asked: asked, req: req, minBytes: max(req.MinBytes, 1), maxBytes: req.MaxBytes}
	if f.maxBytes <= 0 || f.maxBytes > maxFetchBytes {
		f.maxBytes = maxFetchBytes
	}
	f.minBytes = min(f.minBytes, f.maxBytes)
	var timeout <-chan time.Time
	for {
		if err := c.live(ctx); err != nil {
			return nil, err
		}
		resp, err := f.reserveAndRead(ctx)
		if err != nil {
			return nil, err
		}
		if f.answer() {
			return resp, nil
		}
		f.release(f.bytes)
		if timeout == nil {
			t := time.NewTimer(req.MaxWait)
			defer t.Stop()
			timeout = t.C
		}
		w := f.wait()
		select {
		case <-w.woken:
			w.cancel()
		case <-timeout:
			w.cancel()
			return f.reserveAndRead(ctx)
		case <-ctx.Done():
			w.cancel()
			return nil, ctx.Err()
		case <-c.closing:
			w.cancel()
			return nil, ErrClosed
		}
	}
}

func (c *Cluster) live(ctx context.Context) error {
	select {
	case <-c.closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// fetch is one fetch request under way.
type fetch struct {
	c                  *Cluster
	asked              int32 // the broker that serves it, or anyBroker
	req                *partition.FetchRequest
	minBytes, maxBytes int

	// Of the last read:
	resp     *partition.FetchResponse // used again by the next read, if it was not returned
	places   []fetchPlace             // where each partition's waiting would begin
	bytes    int
	anyError bool   // or another broker is to be used: the response does not wait
	buf      []byte // the rest of the request's buffer
}

// fetchPlace is one partition of a fetch after it was read.
type fetchPlace struct {
	r       *replica
	p       *partition.Partition // nil: never written
	follows bool                 // it is read as a follower
	bound   int64                // offset from which on there may be something new
}

// answer reports whether the last read is to be returned without waiting.
func (f *fetch) answer() bool {
	return f.req.MaxWait <= 0 || len(f.req.Partitions) == 0 || f.anyError || f.bytes >= f.minBytes
}

// reserveAndRead reads with the memory for it reserved; afterwards the memory of the result is
// reserved.
func (f *fetch) reserveAndRead(ctx context.Context) (*partition.FetchResponse, error) {
	if f.req.Reserve == nil {
		return f.read(), nil
	}
	if err := f.req.Reserve(ctx, f.maxBytes); err != nil {
		return nil, err
	}
	resp := f.read()
	f.release(f.maxBytes - min(f.bytes, f.maxBytes))
	return resp, nil
}

// release gives back reserved memory of that many bytes, at most all of it.
func (f *fetch) release(bytes int) {
	if f.req.Release != nil {
		f.req.Release(min(bytes, f.maxBytes))
	}
}

// read reads the available records, within the limits.
func (f *fetch) read() *partition.FetchResponse {
	n := len(f.req.Partitions)
	if f.resp == nil {
		f.resp = &partition.FetchResponse{Partitions: make([]partition.FetchedPartition, n)}
		f.places = make([]fetchPlace, n)
	} else {
		clear(f.resp.Partitions)
		clear(f.places)
	}
	resp := f.resp
	f.bytes, f.anyError, f.buf = 0, false, f.req.Buf[:0]
	left, starved := f.maxBytes, false
	first := 0
	if n > 0 && !f.req.InOrder {
		first = int(f.c.rotation.n.Load() % uint32(n))
	}
	for i := range n {
		at := (first + i) % n
		got := &resp.Partitions[at]
		want := &f.req.Partitions[at]
		limit := want.MaxBytes
		if limit <= 0 {
			limit = defaultPartitionFetchBytes
		}
		f.readPartition(want, got, &f.places[at], min(limit, left))
		f.bytes += len(got.Bytes)
		left -= len(got.Bytes)
		if got.Err != nil || got.PreferredReplica != 0 {
			f.anyError = true
		} else if len(got.Bytes) == 0 && want.Offset < f.places[at].bound {
			starved = true
		}
	}
	if starved && !f.req.InOrder {
		f.c.rotation.n.Add(1)
	}
	return resp
}

// readPartition reads one partition. limit may be 0 or less: then only the watermarks are returned.
func (f *fetch) readPartition(want *partition.FetchPartition, got *partition.FetchedPartition, at *fetchPlace, limit int) {
	got.TopicPartition = want.TopicPartition
	src, err := f.sourceIn(want)
	var res partition.ReadResult
	done := false
	if err == nil && len(src.near) > 0 {
		res, got.PreferredReplica, done = f.readNearer(&src, want, at, limit)
	}
	if err == nil && !done {
		res, err = f.readSource(&src, want, at, limit)
	}
	if err != nil {
		f.fail(got, err)
		return
	}
	got.HighWatermark, got.LastStableOffset, got.LogStartOffset = res.HighWatermark, res.LastStableOffset, res.LogStartOffset
	got.LeaderEpoch, got.Bytes = res.LeaderEpoch, res.Bytes
	if f.req.Isolation == partition.ReadCommitted {
		if got.Aborted = res.Aborted; got.Aborted == nil {
			got.Aborted = []partition.AbortedTxn{}
		}
	}
	at.bound = res.Bound(f.req.Isolation)
}

// readSource reads a partition at a replica, and notes it as the place where it is waited.
func (f *fetch) readSource(s *source, want *partition.FetchPartition, at *fetchPlace, limit int) (res partition.ReadResult, err error) {
	at.r, at.follows = s.r, s.follows
	if at.p, err = s.r.state(); err != nil {
		return res, err
	}
	if at.p == nil {
		return f.c.readUnwritten(want)
	}
	if s.follows {
		f.c.stats.followerReads.Add(1)
	}
	return f.readFrom(s, at.p, want, limit)
}

func (f *fetch) fail(got *partition.FetchedPartition, err error) {
	if errors.Is(err, partition.ErrClosed) {
		if _, _, gone := f.c.find(got.TopicPartition); gone != nil { // deleted while we looked
			err = gone
		}
	}
	got.Err = err
	got.HighWatermark, got.LastStableOffset, got.LogStartOffset, got.LeaderEpoch = -1, -1, -1, -1
}

// readFrom reads an open partition. Only the first batch of the whole response may be larger than
// the limit.
func (f *fetch) readFrom(s *source, p *partition.Partition, want *partition.FetchPartition, limit int) (res partition.ReadResult, err error) {
	first := f.bytes == 0
	if !first && limit <= 0 && !s.follows {
		res, err := p.Glance(want.CurrentLeaderEpoch)
		if err == nil && want.Offset >= res.LogStartOffset && want.Offset < res.Bound(f.req.Isolation) {
			return res, nil // else a real read fails, or is at the end anyway
		}
	}
	req := partition.ReadRequest{
		Offset: want.Offset, MaxBytes: max(limit, 1), Isolation: f.req.Isolation, CurrentLeaderEpoch: want.CurrentLeaderEpoch,
		Partial: f.req.Partial, Buf: f.buf,
	}
	if s.follows {
		res, err = p.ReadFollower(req, s.epoch)
	} else {
		res, err = p.Read(req)
	}
	if want.LastFetchedEpoch >= 0 && (err == nil || errors.Is(err, partition.ErrOffsetOutOfRange)) {
		if truncated := p.CheckLastFetched(want.LastFetchedEpoch, want.Offset); truncated != nil {
			return partition.ReadResult{}, truncated
		}
	}
	if err == nil && !first && len(res.Bytes) > limit {
		res.Bytes, res.Aborted = nil, nil
	}
	f.usedBuf(res.Bytes)
	return res, err
}

// usedBuf removes the part of the request's buffer that was used for read from the rest.
func (f *fetch) usedBuf(read []byte) {
	if n := len(read); n > 0 && cap(f.buf) >= n && &read[0] == &f.buf[:1][0] {
		f.buf = f.buf[n:n:cap(f.buf)]
	}
}

// readUnwritten reads a partition that has no files.
func (c *Cluster) readUnwritten(want *partition.FetchPartition) (partition.ReadResult, error) {
	_, p, err := c.find(want.TopicPartition)
	if err != nil {
		return partition.ReadResult{}, err
	}
	switch err = partition.CompareEpochs(want.CurrentLeaderEpoch, p.LeaderEpoch); {
	case err != nil || want.Offset == 0:
	case want.LastFetchedEpoch >= 0:
		err = &partition.TruncatedError{TopicPartition: want.TopicPartition, Offset: want.Offset, Epoch: -1}
	default:
		err = partition.ErrOffsetOutOfRange
	}
	if err != nil {
		return partition.ReadResult{}, fmt.Errorf("read %s-%d: %w", want.Topic, want.Partition, err)
	}
	return partition.ReadResult{LeaderEpoch: p.LeaderEpoch}, nil
}
