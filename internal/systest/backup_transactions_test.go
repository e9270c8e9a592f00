package systest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

var (
	backupStorms     = flag.Int("backup-storms", 0, "number of storms for each number of brokers and version; 0: 6, or 1 where time is short")
	firstBackupStorm = flag.Uint64("first-backup-storm", 0, "seed of the first storm")
)

// committedIn returns the values that a ReadCommitted reader finds in a partition.
func committedIn(t *testing.T, c *strata.Cluster, of record.TopicPartition) []string {
	t.Helper()
	r := &committedReader{of: of}
	require.NoError(t, r.read(t.Context(), c))
	return r.values
}

// A transaction may be committed, or begin, while a backup has copied only some of its partitions.
// The copy has each transaction as it was at one moment: here open, or not at all. The next
// producer with the id ends the open one as a whole.
func TestBackupTearsNoTransactionThatEndsMeanwhile(t *testing.T) {
	for _, version := range []int16{0, 2} {
		for _, first := range []string{"orders-0", "orders-1", "__transaction_state-0", "__consumer_offsets-0"} {
			t.Run(fmt.Sprintf("version %d, %s first", version, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					disk := vfs.Mem()
					c := openOne(t, disk, "data")
					require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
					p := takeID(t, c, version)
					transfer(t, p, "before")
					require.NoError(t, p.end(t, true))
					time.Sleep(time.Second)
					transfer(t, p, "meanwhile")
					var once sync.Once
					remove := disk.Observe(vfs.Observer{After: func(e vfs.Event, _ error) {
						if e.Op == vfs.OpRename && e.NewName == filepath.Join("copy", "broker-1", first) {
							once.Do(func() {
								require.NoError(t, p.end(t, true))
								time.Sleep(time.Second)
								transfer(t, p, "after")
							})
						}
					}, Before: slowExcept(first)})
					require.NoError(t, c.Backup(t.Context(), "copy"))
					remove()
					require.NoError(t, p.end(t, true))
					time.Sleep(time.Second)
					require.Equal(t, []string{"before", "meanwhile", "after"}, committedIn(t, c, at("orders", 1)))
					require.NoError(t, c.Close())

					c = openOne(t, disk, "copy")
					defer func() { require.NoError(t, c.Close()) }()
					p = takeID(t, c, version) // aborts its predecessor's open transaction
					transfer(t, p, "again")
					require.NoError(t, p.end(t, true))
					time.Sleep(time.Second)
					for part := range int32(2) {
						require.Equal(t, []string{"before", "again"}, committedIn(t, c, at("orders", part)))
					}
					got, err := c.Backend().FetchOffsets(t.Context(), "readers", nil)
					require.NoError(t, err)
					require.EqualValues(t, len("again"), got[at("orders", 0)].Offset)
					hanging, err := c.HangingTransactions(t.Context())
					require.NoError(t, err)
					require.Empty(t, hanging)
				})
			})
		}
	}
}

// takeID returns a new client of the id, once the coordinator has ended the previous transaction.
func takeID(t *testing.T, c *strata.Cluster, version int16) *txnClient {
	t.Helper()
	for {
		p, err := c.TransactionCoordinator().InitProducerID(t.Context(), "billing", 15*time.Minute, transaction.NoProducer)
		if !errors.Is(err, transaction.ErrConcurrent) {
			require.NoError(t, err)
			return &txnClient{c, "billing", version, p, map[record.TopicPartition]int32{}}
		}
		time.Sleep(time.Millisecond)
	}
}

// While a backup records the end offsets of all partitions, no transaction is decided: EndTxn
// waits.
func TestNoTransactionIsDecidedWhileAllAreHeld(t *testing.T) {
	c := openOne(t, vfs.Mem(), "data")
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	p := takeID(t, c, 2)
	transfer(t, p, "a")
	ended := make(chan error, 1)
	ask := func() { // named, so that its stack can be recognized
		_, err := c.TransactionCoordinator().End(t.Context(), transaction.EndRequest{ID: p.id, Producer: p.p, Commit: true, Version: 2})
		ended <- err
	}
	c.Backend().HoldTransactions(func() {
		go ask()
		stacks := make([]byte, 1<<20)
		for waits := false; !waits; runtime.Gosched() {
			require.Empty(t, ended, "the transaction is decided")
			for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
				waits = waits || strings.Contains(stack, "coordinator.(*Shard") && strings.Contains(stack, "sync.(*Mutex)")
			}
		}
	})
	require.NoError(t, <-ended)
}

// slowExcept delays each change in the copies of all partitions except one by a minute.
func slowExcept(first string) func(vfs.Event) {
	return func(e vfs.Event) {
		dir, name := filepath.Split(e.Name)
		if dir == filepath.Join("copy", "broker-1")+string(filepath.Separator) && name != first && name == strings.TrimSuffix(name, ".partial") && !strings.HasPrefix(name, "strata.") {
			time.Sleep(time.Minute)
		}
	}
}

func openOne(t *testing.T, disk *vfs.MemFS, dir string) *strata.Cluster {
	t.Helper()
	cfg := strata.Config{FS: disk, Dir: dir}
	cfg.Group.OffsetsPartitions, cfg.Transactions.Topic.Partitions = 1, 1
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	return c
}

// transfer writes a value to both partitions of orders, and commits the value's length as an
// offset.
func transfer(t *testing.T, p *txnClient, value string) {
	t.Helper()
	if p.version == 0 {
		who := transaction.AddRequest{ID: p.id, Producer: p.p, Partitions: []record.TopicPartition{at("orders", 0), at("orders", 1)}}
		require.NoError(t, p.c.TransactionCoordinator().AddPartitions(t.Context(), who))
		require.NoError(t, p.c.TransactionCoordinator().AddOffsets(t.Context(), who, "readers"))
	}
	for part := range int32(2) {
		require.NoError(t, p.send(t, at("orders", part), value))
	}
	require.NoError(t, p.commitOffsets(t, "readers", map[record.TopicPartition]int64{at("orders", 0): int64(len(value))}))
}

// A backupStorm is a txnStorm of which copies are made at any time.
type backupStorm struct {
	*txnStorm
	disk   *vfs.MemFS
	copies []backupCopy
}

// A backupCopy is a copy with its history: all results received before the backup began, and all
// requests sent before it was complete.
type backupCopy struct {
	dir     string
	history *txnHistory
}

// backUp makes copies until the workers have finished. The copies' disk has random delays, so that
// much happens during a backup.
func (s *backupStorm) backUp() {
	s.disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if strings.HasPrefix(e.Name, "copy") && e.Op&vfs.OpChange != 0 && s.n(4) == 0 {
			time.Sleep(time.Duration(s.n(30)) * time.Millisecond)
		}
	}})
	// There is at least one copy.
	for over := false; !over; time.Sleep(time.Duration(s.n(1500)) * time.Millisecond) {
		var c *strata.Cluster
		c, over = s.cluster()
		x := backupCopy{dir: fmt.Sprint("copy", len(s.copies))}
		told := s.history.until()
		if err := c.Backup(s.Context(), x.dir); err != nil {
			s.fail("backup: %v", err)
			return
		}
		x.history = s.history.cut(told, s.history.until())
		s.copies = append(s.copies, x)
	}
}

func newBackupStorm(t *testing.T, disk *vfs.MemFS, brokers int, version int16, seed uint64) *backupStorm {
	s := &backupStorm{newTxnCrash(t, disk, brokers, version, seed), disk, nil}
	s.pieces = 8
	for p := range int32(3) {
		s.out = append(s.out, at("a", p), at("b", p))
	}
	return s
}

// settle waits until all open transactions have ended, and checks the outcome.
func (s *backupStorm) settle(t *testing.T) {
	s.late.Wait()
	time.Sleep(txnStormTimeout + time.Minute)
	synctest.Wait()
	s.check()
	require.NoError(t, s.c.Close())
	require.Empty(t, s.wrong, "%s: %s", s.dir, strings.Join(s.wrong, "\n"))
}

// Workers move records from one topic to others in transactions, with the offsets of their input.
// Copies are made at any time. An opened copy has each transaction as a whole or not at all, and
// all that were confirmed before the backup began. Its offsets and its output agree, no
// transaction stays open, and workers that continue do the rest once.
func TestBackupsAmidTransactionsAgreeWithThemselves(t *testing.T) {
	storms := 6
	switch {
	case *backupStorms > 0:
		storms = *backupStorms
	case sample.Hurried():
		storms = 1
	}
	chosen := sample.Fewer(t, 3)
	for _, brokers := range []int{1, 3} {
		for version := range int16(3) {
			if !chosen(int(version)) {
				continue
			}
			t.Run(fmt.Sprintf("%d brokers, version %d", brokers, version), func(t *testing.T) {
				n, first := 0, *firstBackupStorm
				if first == 0 {
					first = sample.Seed(t)
				}
				for seed := first; seed < first+uint64(storms); seed++ {
					n += runBackupStorm(t, brokers, version, seed)
				}
				t.Log(n, "copies")
				require.GreaterOrEqual(t, n, storms)
			})
		}
	}
}

func runBackupStorm(t *testing.T, brokers int, version int16, seed uint64) int {
	var copies []backupCopy
	disk := vfs.Mem()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		s := newBackupStorm(t, disk, brokers, version, seed)
		s.calm, s.out = seed%3 == 0, nil
		s.open()
		s.create()
		var copying sync.WaitGroup
		copying.Go(s.backUp)
		s.do(0)
		copying.Wait()
		s.settle(t)
		copies = s.copies
	})
	for i, x := range copies {
		synctest.Test(t, func(t *testing.T) {
			s := newBackupStorm(t, disk, brokers, version, seed)
			s.history, s.dir, s.calm = x.history, x.dir, true
			s.open()
			if rand.New(rand.NewPCG(seed, uint64(i))).IntN(2) == 0 {
				time.Sleep(txnStormTimeout + time.Minute)
				synctest.Wait()
				s.check()
			}
			s.do(1000)
			s.settle(t)
		})
	}
	return len(copies)
}
