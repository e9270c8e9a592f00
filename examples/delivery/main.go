// Command delivery crashes a consumer in the middle of its work, once under each way of committing, and counts losses and repeats.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const total = 1000

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "delivery:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(ctx, "payments", topic.Config{Partitions: 1}); err != nil {
		return err
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	var rs []record.Record
	for i := range total {
		rs = append(rs, record.String("payments", "", fmt.Sprint(i)))
	}
	if _, err := p.Send(ctx, rs...); err != nil {
		return err
	}

	store := &ownStore{next: record.Offsets{}, seen: map[string]int{}}
	for i, way := range []struct {
		name  string
		cfg   consumer.Config
		store *ownStore
	}{
		{"at most once:  commit, then work", consumer.Config{Commit: consumer.CommitBeforeDelivery}, nil},
		{"at least once: work, then commit", consumer.Config{Commit: consumer.CommitManual}, nil},
		{"exactly once:  work and offset in one store", consumer.Config{Commit: consumer.CommitManual, StartAt: store.startAt}, store},
	} {
		w := &worker{seen: map[string]int{}, store: way.store}
		cfg := way.cfg
		cfg.Group, cfg.Topics, cfg.InstanceID, cfg.MaxPollRecords = fmt.Sprint("way-", i), []string{"payments"}, "worker", 150
		for life := 1; !w.done; life++ {
			if err := w.live(ctx, cluster, cfg, life == 1); err != nil {
				return err
			}
		}
		lost, repeated := w.judge()
		fmt.Printf("%-46s %4d lost, %4d repeated\n", way.name, lost, repeated)
	}
	fmt.Println("\nThe crash comes after the work on record 500 and before whatever follows it.")
	return nil
}

// A worker processes payments; what it has seen outlives its crashes, as the outside world would.
type worker struct {
	seen  map[string]int
	store *ownStore // nil: offsets are in the group
	done  bool
}

// live is one life of the process. In the first one it is cut off in the middle: no commit arrives any more, no farewell.
// Its successor has the same InstanceID and so takes its place in the group at once.
func (w *worker) live(ctx context.Context, cluster *strata.Cluster, cfg consumer.Config, crash bool) error {
	l := &link{Backend: cluster}
	c, err := consumer.New(l, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // then nothing more comes
	defer cancel()
	for r, err := range c.Records(ctx) {
		if err != nil {
			return errors.Join(err, c.Close())
		}
		if w.store != nil {
			w.store.work(r)
		} else {
			w.seen[string(r.Value)]++
		}
		if crash && r.Offset == total/2 {
			l.cut.Store(true)
			_ = c.Close() // only the goroutines: nothing gets through any more
			return nil
		}
		if cfg.Commit == consumer.CommitManual && r.Offset%100 == 99 {
			if err := c.Commit(ctx, r); err != nil {
				return errors.Join(err, c.Close())
			}
		}
	}
	w.done = true
	return c.Close()
}

// A link is the way to the broker, until it is cut.
type link struct {
	consumer.Backend
	cut atomic.Bool
}

var errCut = errors.New("cut off")

func (l *link) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	if l.cut.Load() {
		return nil, errCut
	}
	return l.Backend.CommitOffsets(ctx, req)
}

func (w *worker) judge() (lost, repeated int) {
	if w.store != nil {
		w.seen = w.store.seen
	}
	for i := range total {
		switch n := w.seen[fmt.Sprint(i)]; {
		case n == 0:
			lost++
		case n > 1:
			repeated++
		}
	}
	return lost, repeated
}

// ownStore keeps the work and the offset it goes up to in one place, so that they cannot disagree: think of one database transaction.
type ownStore struct {
	seen map[string]int
	next record.Offsets
}

func (s *ownStore) work(r record.Record) {
	s.seen[string(r.Value)]++
	s.next[record.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
}

func (s *ownStore) startAt(context.Context, []record.TopicPartition) (record.Offsets, error) {
	return maps.Clone(s.next), nil
}
