package group

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// fakeStore is a Store in memory. The test sets the delays and failures of its disk.
type fakeStore struct {
	mu                 sync.Mutex
	logs               []*fakeLog // nil: there is no offsets topic
	topics             Topics
	starts, ends       record.Offsets
	changed            chan struct{}
	syncTime           time.Duration // time between an append and its done call
	blocked            chan struct{} // appends wait until it is closed; nil: they do not wait
	appendErr, readErr error
	markers            record.Offsets                  // at the end of a log, for TimestampsAt
	hung               map[record.TopicPartition]error // of TimestampsAt
	stamped            []int                           // numbers of partitions in calls of TimestampsAt
	// leaders of the offsets topic's partitions; broker 1 leads the partitions that are not in it
	leaders map[int32]leader
}

// leader is the leader of a partition and its epoch. A broker of -1 means no leader.
type leader struct{ broker, epoch int32 }

func newFakeStore(topics map[string]int32) *fakeStore {
	f := &fakeStore{topics: Topics{Version: 1, Topics: map[string]TopicInfo{}}, starts: record.Offsets{}, ends: record.Offsets{}, changed: make(chan struct{})}
	id := byte(0)
	for name, n := range topics {
		id++
		f.topics.Topics[name] = TopicInfo{ID: [16]byte{id, name[0]}, Partitions: n}
	}
	return f
}

// enterBubble makes the store usable in another bubble than the one that created it.
func (f *fakeStore) enterBubble() { f.changed = make(chan struct{}) }

func (f *fakeStore) OffsetsTopic(_ context.Context, create OffsetsShape) (int32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logs == nil {
		for range create.Partitions {
			f.logs = append(f.logs, &fakeLog{f: f})
		}
	}
	return int32(len(f.logs)), nil
}

func (f *fakeStore) OffsetsLeader(p int32) (broker, epoch int32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.leaderLocked(p)
	return l.broker, l.epoch, nil
}

func (f *fakeStore) leaderLocked(p int32) leader {
	if l, ok := f.leaders[p]; ok {
		return l
	}
	return leader{broker: 1}
}

// lead makes broker the leader of a partition of the offsets topic in the next epoch; -1 means no
// leader. The new leader has the confirmed batches and the first keep of the unconfirmed ones.
func (f *fakeStore) lead(p, broker int32, keep int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaders == nil {
		f.leaders = map[int32]leader{}
	}
	f.leaders[p] = leader{broker, f.leaderLocked(p).epoch + 1}
	if f.logs != nil {
		f.logs[p].cutLocked(keep)
	}
	f.changedLocked()
}

func (f *fakeStore) OffsetsLog(p, epoch int32) (OffsetsLog, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &epochLog{f.logs[p], p, epoch}, nil
}

func (f *fakeStore) Topics(_ context.Context, names ...string) (Topics, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Topics{Version: f.topics.Version, Topics: map[string]TopicInfo{}}
	if len(names) == 0 {
		for name := range f.topics.Topics {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if info, ok := f.topics.Topics[name]; ok {
			out.Topics[name] = info
		}
	}
	return out, nil
}

func (f *fakeStore) WaitTopics(ctx context.Context, after int64) (int64, error) {
	for {
		f.mu.Lock()
		version, changed := f.topics.Version, f.changed
		f.mu.Unlock()
		if version > after {
			return version, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (f *fakeStore) ListOffsets(_ context.Context, tps []record.TopicPartition, at partition.OffsetSpec) (record.Offsets, map[record.TopicPartition]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := record.Offsets{}
	for _, tp := range tps {
		if tp.Partition < f.topics.Topics[tp.Topic].Partitions {
			switch {
			case at == partition.Earliest:
				out[tp] = f.starts[tp]
			case at == partition.Latest:
				out[tp] = f.ends[tp]
			default: // the log has one record per second since 1970
				out[tp] = max(f.starts[tp], min(int64(at)/1000, f.ends[tp]))
			}
		}
	}
	return out, nil, nil
}

// TimestampsAt has one record per second since 1970 in each log.
func (f *fakeStore) TimestampsAt(_ context.Context, from record.Offsets) (map[record.TopicPartition]partition.OffsetResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stamped = append(f.stamped, len(from))
	out := make(map[record.TopicPartition]partition.OffsetResult)
	for tp, at := range from {
		switch end := f.ends[tp]; {
		case f.hung[tp] != nil:
			out[tp] = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: f.hung[tp]}
		case at >= end-f.markers[tp]:
			out[tp] = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
		default:
			out[tp] = partition.OffsetResult{Offset: at, TimestampMs: 1000 * at}
		}
	}
	return out, nil
}

// set changes a topic; 0 partitions delete it.
func (f *fakeStore) set(name string, info TopicInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info.Partitions == 0 {
		delete(f.topics.Topics, name)
	} else {
		f.topics.Topics[name] = info
	}
	f.changedLocked()
}

func (f *fakeStore) changedLocked() {
	f.topics.Version++
	close(f.changed)
	f.changed = make(chan struct{})
}

// with calls change, which may set the store's behaviour, under the lock.
func (f *fakeStore) with(change func(f *fakeStore)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// clone returns a store with the contents of f, for the next process.
func (f *fakeStore) clone() *fakeStore {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := newFakeStore(nil)
	c.topics, c.starts, c.ends = f.topics, maps.Clone(f.starts), maps.Clone(f.ends)
	for _, l := range f.logs {
		c.logs = append(c.logs, &fakeLog{f: c, data: slices.Clone(l.data), end: l.end, confirmed: len(l.data)})
	}
	return c
}
