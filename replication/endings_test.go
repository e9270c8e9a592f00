package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// hangInClose makes a broker's disk hang when a partition is closed, and nowhere else.
func (ds disks) hangInClose(broker int32) (mend func()) {
	return ds.hang(broker, vfs.OpCreate, "*.snapshot.tmp")
}

// A topic is deleted and created again while a broker still closes the former files. Appends wait
// until these are closed, and the deletion of the former files leaves the new records alone.
func TestTopicCreatedAgainWaitsForTheDirectoryOfTheFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		placed(t, c, "orders", 2)
		produce(t, c, at("orders", 0), "former")
		ds.hangInClose(2)
		deleted, created, entered := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { deleted <- c.DeleteTopic(t.Context(), "orders") }()
		synctest.Wait()
		go func() { created <- c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{2}}}) }()
		synctest.Wait()
		// The broker cannot be fenced while this call holds c.changing.
		go func() { entered <- c.enter(context.Background(), c.changing) }()
		require.NoError(t, <-deleted)
		require.NoError(t, <-created)
		require.NoError(t, <-entered)
		first, second := begin(c, at("orders", 0), "a"), begin(c, at("orders", 0), "b")
		synctest.Wait()
		require.Empty(t, first, "the former's log is open")
		require.NoError(t, (<-first).Err)
		require.NoError(t, (<-second).Err)
		require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
		<-c.changing
		downThen(t, c, 2)
		require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
	})
}

// A broker whose disk hangs while it closes a replica, of a deleted topic or after a move, delays
// no other broker. It can be started again when it is down, because no file is left open.
func TestBrokerThatHangsInTheEndOfAReplicaCanBeStartedAgain(t *testing.T) {
	for what, end := range map[string]func(c *Cluster) error{
		"deletion": func(c *Cluster) error { return c.DeleteTopic(context.Background(), "orders") },
		"move":     func(c *Cluster) error { return reassign(c, at("orders", 0), 1, 3) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openThree(t)
				replicated(t, c, "orders", 1)
				require.NoError(t, all(c, at("orders", 0), "a").Err)
				mend := ds.hangInClose(2)
				start := time.Now()
				require.NoError(t, end(c))
				require.LessOrEqual(t, time.Since(start), 9*time.Second)
				synctest.Wait()
				require.True(t, c.isFenced(2))
				mend()
				downThen(t, c, 2)
				require.NoError(t, c.CreateTopic(t.Context(), "more", topic.Config{Assignment: [][]int32{{2}}}))
				produce(t, c, at("more", 0), "b")
				if what == "move" {
					require.NoError(t, all(c, at("orders", 0), "b").Err)
					require.Equal(t, []string{"a", "b"}, values(t, c, at("orders", 0)))
				}
				require.False(t, hasReplica(t, ds, 2, at("orders", 0)))
			})
		})
	}
}

// Topics are deleted and created again under load while disks fail and hang, and brokers are
// killed, stopped and started. No call reports a directory of the process as locked, and no
// directory is locked after the cluster is closed.
func TestNoDirectoryIsLeftInUseOnFailingDisks(t *testing.T) {
	seeds := uint64(100)
	if sample.Hurried() {
		seeds = 25
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { (&recreation{seed: seed}).run(t) })
	}
}

// recreation is one seeded run.
type recreation struct {
	seed   uint64
	drawn  uint64 // random sequences drawn so far
	ds     disks
	c      *Cluster
	ctx    context.Context
	ending sync.WaitGroup
}

func (s *recreation) run(t *testing.T) {
	r := s.random()
	s.ds = newDisks(1 + 2*r.IntN(2))
	c, err := Open(s.ds.config())
	require.NoError(t, err)
	s.c = c
	ctx, cancel := context.WithCancel(t.Context())
	s.ctx = ctx
	for i := range 2 {
		name := fmt.Sprint("topic-", i)
		s.forever(func(r *rand.Rand) { s.recreate(t, r, name) })
		for range 2 {
			s.forever(func(r *rand.Rand) { s.append(t, r, name) })
		}
	}
	s.forever(func(r *rand.Rand) { s.restart(t, r) })
	mend := s.disturb(r)
	cancel()
	mend()
	s.ending.Wait()
	_ = c.Close() // perhaps with the error of a disk
	for i, d := range s.ds {
		lock, err := d.Lock(filepath.Join("data", fmt.Sprint("broker-", i+1), ".lock"))
		require.NoError(t, err, "seed %d: broker %d", s.seed, i+1)
		require.NoError(t, lock.Close())
	}
}

func (s *recreation) random() *rand.Rand {
	s.drawn++
	return rand.New(rand.NewPCG(s.seed, s.drawn))
}

func (s *recreation) forever(do func(r *rand.Rand)) {
	r := s.random()
	s.ending.Go(func() {
		for s.ctx.Err() == nil {
			do(r)
		}
	})
}

func pass(r *rand.Rand, upTo int) { time.Sleep(time.Duration(1+r.IntN(upTo)) * time.Millisecond) }

// check fails the test if err is a lock error. Disks may fail, but no file may be left open.
func (s *recreation) check(t *testing.T, what string, err error) {
	if errors.Is(err, log.ErrLocked) || errors.Is(err, ErrLocked) {
		t.Errorf("seed %d: %s: %v", s.seed, what, err)
	}
}

func (s *recreation) recreate(t *testing.T, r *rand.Rand, name string) {
	cfg := topic.Config{Partitions: 1 + r.IntN(2), ReplicationFactor: 1 + r.IntN(len(s.ds))}
	if r.IntN(2) == 0 {
		cfg.Properties = neverSynced
	}
	s.check(t, "create", s.c.CreateTopic(context.Background(), name, cfg))
	pass(r, 3000)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	if r.IntN(2) == 0 { // without the wait the topic is created while the deletion is under way
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	}
	defer cancel()
	s.check(t, "delete", s.c.DeleteTopic(ctx, name))
	if r.IntN(2) == 0 {
		pass(r, 300)
	}
}

func (s *recreation) append(t *testing.T, r *rand.Rand, name string) {
	done := make(chan error, 1)
	s.c.Produce(&partition.ProduceRequest{
		TopicPartition: at(name, int32(r.IntN(2))), Batch: batch("x"), Acks: record.AcksAll, Timeout: time.Minute,
		Done: func(r partition.ProduceResult) { done <- r.Err },
	})
	s.check(t, "append", <-done)
	pass(r, 300)
}

func (s *recreation) restart(t *testing.T, r *rand.Rand) {
	id := int32(1 + r.IntN(len(s.ds)))
	switch r.IntN(5) {
	case 0:
		s.check(t, "stop", s.c.StopBroker(s.ctx, id))
	case 1:
		s.check(t, "kill", s.c.KillBroker(id))
	default:
		s.check(t, "start", s.c.StartBroker(s.ctx, id))
	}
	pass(r, 5000)
}

// disturb makes disks fail and hang for some minutes.
func (s *recreation) disturb(r *rand.Rand) (mend func()) {
	ops := []vfs.Op{0, vfs.OpSync, vfs.OpWrite, vfs.OpRename, vfs.OpSyncDir, vfs.OpOpen, vfs.OpRemove, vfs.OpMkdir}
	var all []func()
	for range 30 {
		f := vfs.Fault{Ops: ops[r.IntN(len(ops))], After: r.IntN(30), Times: 1 + r.IntN(5), Err: errDisk}
		if r.IntN(2) == 0 {
			f.Err, f.Delay = nil, time.Duration(r.IntN(30000))*time.Millisecond
		}
		mend := s.ds[r.IntN(len(s.ds))].Inject(f)
		pass(r, 8000)
		if all = append(all, mend); r.IntN(2) == 0 {
			mend()
		}
	}
	return func() {
		for _, mend := range all {
			mend()
		}
	}
}
