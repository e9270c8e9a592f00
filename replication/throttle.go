package replication

import (
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/replication/internal/quota"
	"github.com/stratalog/strata/topic"
)

// A meter measures the bytes that a broker has copied, at one end, of throttled replicas.
type meter struct {
	mu    sync.Mutex
	quota quota.Quota
}

func (m *meter) room(now time.Time, rate int64) (int64, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.quota.Room(now, rate)
}

func (m *meter) record(now time.Time, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quota.Record(now, bytes)
}

// maxRead bounds the batches of one answer to a follower.
const maxRead = 1 << 20

// readThrottled reads within the quotas of both brokers. Bytes of replicas that are in sync, or
// that the high watermark waits for, count, and are never held back. A replica that is held back
// reports its position to the leader all the same, and receives everything except batches. Kafka:
// ReplicationQuotaManager, shouldLeaderThrottle, shouldFollowerThrottle.
func (l leaderSide) readThrottled(ask partition.ReplicaFetch, rates *rates) (partition.ReplicaRead, error) {
	now := time.Now()
	meters, inSync := l.r.node.metadata.throttles(l.r, ask.Broker, rates)
	room, until := int64(maxRead), time.Time{}
	for e, rate := range meters {
		if rate == unthrottled || inSync {
			continue
		}
		r, at := l.meter(end(e)).room(now, rate)
		room = min(room, r)
		if at.After(until) {
			until = at
		}
	}
	if ask.MaxBytes = int(room); room == 0 {
		ask.MaxBytes = -1
	}
	got, err := l.read(ask)
	for e, rate := range meters {
		if n := len(got.Bytes) - len(ask.Buf); rate != unthrottled && n > 0 {
			l.meter(end(e)).record(now, n)
		}
	}
	if err == nil && got.Withheld {
		err = &follow.HeldBack{Until: until}
	}
	return got, err
}

// meter returns the meter of one end of the path.
func (l leaderSide) meter(e end) *meter {
	if e == following {
		return &l.follower.meters[e]
	}
	return &l.r.node.meters[e]
}

// throttles returns the rates that limit the copying of one of the broker's partitions by another
// broker, at each end, and whether the copy is in sync.
func (m nodeMetadata) throttles(r *replica, follower int32, rates *rates) (of [ends]int64, inSync bool) {
	of = [ends]int64{unthrottled, unthrottled}
	t := m.topicOf(r.tp, r.id)
	if t == nil {
		return of, false
	}
	for e, broker := range [ends]int32{m.broker, follower} {
		rate := rates.of(end(e), broker)
		if rate == unthrottled {
			continue
		}
		list, ok := t.Config[throttledReplicas[e]]
		if !ok {
			list = m.c.defaults[throttledReplicas[e]]
		}
		if topic.ListsReplica(list, r.tp.Partition, broker) {
			of[e] = rate
		}
	}
	return of, slices.Contains(t.Partitions[r.tp.Partition].ISR, follower)
}

// letGo makes replicas that are held back check again, if recs change the configuration.
func (c *Cluster) letGo(recs []metarecord.Record) {
	if !slices.ContainsFunc(recs, func(rec metarecord.Record) bool {
		_, ok := rec.(*metarecord.Config)
		return ok
	}) {
		return
	}
	for _, n := range c.servingNodes() {
		n.mu.RLock()
		fetchers := byid.Values(n.fetchers)
		n.mu.RUnlock()
		for _, f := range fetchers {
			f.LetGo()
		}
	}
}
