package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

// A tally is the state of one partition: the counts, and the offset that they go up to. Both
// are in one file, so they cannot disagree.
type tally struct {
	Next   int64          `json:"next"`
	Counts map[string]int `json:"counts"`
}

// A group is a group of counters at work.
type group struct {
	cluster strata.Client
	at      place
	out     io.Writer
	ctx     context.Context // ends when all is counted, or a counter fails
	stop    context.CancelCauseFunc
	members sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and out
	counted int
	left    int // to count in this run; -1: not known yet
	before  int // counted in earlier runs
}

// A counter is one member of the group.
type counter struct {
	*group
	name    string
	c       *consumer.Consumer
	tallies map[record.TopicPartition]*tally
	joined  func() // called when it has partitions
}

var errAllCounted = errors.New("all counted")

func newGroup(ctx context.Context, cluster strata.Client, at place, out io.Writer) (*group, error) {
	if err := os.MkdirAll(at.countDir(), 0o755); err != nil {
		return nil, err
	}
	g := &group{cluster: cluster, at: at, out: out, left: -1}
	for p := range int32(partitions) {
		t, err := load(g.file(record.TopicPartition{Topic: topicName, Partition: p}))
		if err != nil {
			return nil, err
		}
		g.before += int(t.Next)
	}
	g.ctx, g.stop = context.WithCancelCause(ctx)
	return g, nil
}

// join starts one more member and returns when it has partitions.
func (g *group) join(name string) {
	joined := make(chan struct{})
	k := &counter{group: g, name: name, tallies: map[record.TopicPartition]*tally{}, joined: sync.OnceFunc(func() { close(joined) })}
	g.members.Go(func() {
		if err := k.run(g.ctx); err != nil {
			g.stop(err)
		}
	})
	select {
	case <-joined:
	case <-g.ctx.Done():
	}
}

// finish waits until everything in the topic is counted.
func (g *group) finish(ctx context.Context, cluster strata.Client) (counted int, err error) {
	ends, err := cluster.Offsets(ctx, topicName, strata.Latest)
	if err != nil {
		return 0, errors.Join(err, g.leave(err))
	}
	g.mu.Lock()
	g.left = -g.before
	for _, end := range ends {
		g.left += int(end)
	}
	g.mu.Unlock()
	g.count(0)
	<-g.ctx.Done()
	err = g.leave(nil)
	return g.counted, err
}

// leave stops the members and returns the error that stopped them, if there is one.
func (g *group) leave(err error) error {
	g.stop(err)
	g.members.Wait()
	if cause := context.Cause(g.ctx); !errors.Is(cause, errAllCounted) && !errors.Is(cause, err) {
		return cause
	}
	return nil
}

// count adds n to the number of counted records, and ends the work when all are counted.
func (g *group) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counted += n
	if g.counted == g.left {
		g.stop(errAllCounted)
	}
}

// run counts until ctx is done.
func (k *counter) run(ctx context.Context) (err error) {
	k.c, err = consumer.New(k.cluster, consumer.Config{
		Group: groupName, Topics: []string{topicName}, ClientID: k.name, Commit: consumer.CommitManual,
		SessionTimeout:    k.at.sessionTimeout(),
		HeartbeatInterval: 50 * time.Millisecond, // how fast members learn of a rebalance; cheap in one process
		StartAt:           k.startAt,             // the files' offsets prevail over the group's
		OnAssigned: func(_ context.Context, tps []record.TopicPartition) {
			k.mu.Lock()
			fmt.Fprintf(k.out, "  %-4s takes partitions %v\n", k.name, numbers(tps))
			k.mu.Unlock()
			k.joined()
		},
		OnRevoked: func(ctx context.Context, tps []record.TopicPartition) {
			err = errors.Join(err, k.save(ctx, tps))
		},
	})
	if err != nil {
		return err
	}
	saved := time.Now()
	for r, recordErr := range k.c.Records(ctx) {
		if recordErr != nil {
			return errors.Join(recordErr, k.c.Close())
		}
		t := k.tallies[record.TopicPartition{Topic: r.Topic, Partition: r.Partition}]
		t.Counts[string(r.Key)]++
		t.Next = r.Offset + 1
		k.count(1)
		if time.Since(saved) > 100*time.Millisecond {
			if err := k.save(context.WithoutCancel(ctx), k.c.Assignment()); err != nil {
				return errors.Join(err, k.c.Close())
			}
			saved = time.Now()
		}
	}
	return errors.Join(k.c.Close(), err) // Close revokes the partitions, which saves their tallies
}

// startAt loads the tallies of new partitions and returns the offsets where they continue.
func (k *counter) startAt(_ context.Context, tps []record.TopicPartition) (record.Offsets, error) {
	offsets := record.Offsets{}
	for _, tp := range tps {
		t, err := load(k.file(tp))
		if err != nil {
			return nil, err
		}
		k.tallies[tp] = t
		offsets[tp] = t.Next
	}
	return offsets, nil
}

// save replaces the tallies' files. It also commits the offsets to the group, only for the display
// of its lag.
func (k *counter) save(ctx context.Context, tps []record.TopicPartition) error {
	offsets := record.Offsets{}
	for _, tp := range tps {
		t := k.tallies[tp]
		if t == nil {
			continue
		}
		if err := t.store(k.file(tp)); err != nil {
			return err
		}
		offsets[tp] = t.Next
	}
	return k.c.CommitOffsets(ctx, offsets)
}

func (g *group) file(tp record.TopicPartition) string {
	return filepath.Join(g.at.countDir(), fmt.Sprintf("%s-%d.json", tp.Topic, tp.Partition))
}

func load(file string) (*tally, error) {
	t := &tally{Counts: map[string]int{}}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	return t, json.Unmarshal(b, t)
}

// store writes the tally beside its file and renames it: a reader sees all of the old or all of the
// new tally.
func (t *tally) store(file string) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	f, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// addUp sums the tallies of all partitions.
func addUp(dir string) (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(dir, topicName+"-*.json"))
	if err != nil {
		return nil, err
	}
	totals := map[string]int{}
	for _, f := range files {
		t, err := load(f)
		if err != nil {
			return nil, err
		}
		for key, n := range maps.All(t.Counts) {
			totals[key] += n
		}
	}
	return totals, nil
}

func numbers(tps []record.TopicPartition) (ps []int32) {
	for _, tp := range tps {
		ps = append(ps, tp.Partition)
	}
	return ps
}
