package partition

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// abort writes a transaction of one record and aborts it.
func abort(t testing.TB, p *Partition, pid int64, epoch int16, key string) {
	t.Helper()
	require.NoError(t, send(p, batchSpec{pid: pid, epoch: epoch, txn: true, key: key, value: "aborted"}).Err)
	require.NoError(t, end(p, TxnMarker{ProducerID: pid, ProducerEpoch: epoch}).Err)
}

// While each operation of a disk on the transaction index takes a minute, the partition serves
// requests that do not need that index. The log serves producers.
func TestNobodyWaitsForTheDiskWithTheTransactionIndex(t *testing.T) {
	for name, call := range map[string]func(p *Partition){
		"abort": func(p *Partition) { end(p, TxnMarker{ProducerID: 1}) },
		"roll":  func(p *Partition) { _ = p.Roll() },
	} {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.Mem()
			p := openLeader(t, testConfig(fs))
			abort(t, p, 2, 0, "")
			require.NoError(t, send(p, batchSpec{pid: 1, txn: true}).Err)
			stop := fs.Inject(vfs.Fault{Pattern: "*.txnindex*", Delay: time.Minute, Times: vfs.Always})
			began, done := time.Now(), make(chan time.Duration, 1)
			go func() {
				call(p)
				done <- time.Since(began)
			}()
			time.Sleep(time.Second) // the disk is at work
			require.True(t, p.log.Busy(), name)
			if !p.mu.TryLock() { // a goroutine that waits for a mutex stops the time of a bubble
				<-done
				stop()
				t.Fatal(name)
			}
			p.mu.Unlock()
			sent := make(chan ProduceResult, 1)
			p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Done: func(r ProduceResult) { sent <- r }})
			require.Equal(t, []seen{}, append([]seen{}, readAll(t, p, ReadCommitted)...), name)
			require.Equal(t, time.Second, time.Since(began), name)
			require.GreaterOrEqual(t, <-done, time.Minute, name)
			require.NoError(t, (<-sent).Err)
			stop()
		})
	}
}

// Entries of the transaction index cannot be written for a while. Meanwhile segments are closed
// and old ones removed, with the last records of a producer. When the disk works again all
// producers are known, and aborted records stay aborted, after any kind of restart.
func TestOwedAbortsCostNeitherProducersNorRecords(t *testing.T) {
	for _, how := range []string{"closed", "killed", "cut", "power cut", "works again"} {
		t.Run(how, func(t *testing.T) {
			fs := vfs.Mem()
			cfg := testConfig(fs)
			cfg.Log.RetentionBytes = 300
			p := openLeader(t, cfg)
			idle := batchSpec{pid: 9, value: "idle"}
			require.NoError(t, send(p, idle).Err)
			require.NoError(t, p.Roll())
			stop := fs.Inject(vfs.Fault{Ops: vfs.OpCreate | vfs.OpWrite, Pattern: "*.txnindex*", Err: syscall.ENOSPC, Times: vfs.Always})
			for i := range int16(4) {
				abort(t, p, 1, i, "")
				require.NoError(t, send(p, batchSpec{value: "v"}).Err)
				require.NoError(t, p.Roll())
				_, err := p.Clean(t.Context())
				require.NoError(t, err)
			}
			start := p.LogStartOffset()
			require.Greater(t, start, int64(1))
			want := readAll(t, p, ReadCommitted)
			require.NotEmpty(t, want)
			for _, s := range want {
				require.Equal(t, "v0", s.Value)
			}
			switch how {
			case "closed":
				require.ErrorIs(t, p.Close(), syscall.ENOSPC, "Kafka would believe the index")
				stop()
			case "killed":
				stop()
				cfg.Log.FS = fs.Kill()
			case "power cut":
				stop()
				cfg.Log.FS = fs.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			case "cut":
				stop()
				p.BecomeFollower()
				require.NoError(t, p.TruncateTo(p.LogEndOffset()))
				require.NoError(t, p.BecomeLeader(1))
			case "works again":
				stop()
				require.NoError(t, p.Close())
			}
			if how != "cut" {
				p = reopen(t, cfg, 2)
			}
			require.Equal(t, want, readAll(t, p, ReadCommitted))
			r := send(p, idle)
			require.NoError(t, r.Err)
			require.True(t, r.Duplicate, "a producer whose records are gone is known")
			require.NoError(t, p.Close())
			cfg.Log.FS = cfg.Log.FS.(*vfs.MemFS).CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			p = reopen(t, cfg, 3)
			require.Equal(t, want, readAll(t, p, ReadCommitted))
			require.NoError(t, p.Close())
		})
	}
}

// The segment with an abort is closed while the disk has no room for its index entry: compaction
// skips it.
func TestCompactionWaitsForOwedAborts(t *testing.T) {
	fs := vfs.Mem()
	cfg := testConfig(fs)
	cfg.Log.Cleanup, cfg.Log.MinDirtyRatio = log.CleanupCompact, 0.01
	p := openLeader(t, cfg)
	require.NoError(t, send(p, batchSpec{key: "k", value: "a"}).Err)
	stop := fs.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "*.txnindex*", Err: syscall.ENOSPC, Times: vfs.Always})
	abort(t, p, 1, 0, "k")
	require.NoError(t, p.Roll())
	require.NoError(t, send(p, batchSpec{key: "other", value: "b"}).Err)
	_, err := p.Clean(t.Context())
	require.NoError(t, err)
	want := []seen{{0, "a0"}, {3, "b0"}}
	require.Equal(t, want, readAll(t, p, ReadCommitted))
	stop()
	require.NoError(t, p.Roll())
	r, err := p.Clean(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Compaction.Skipped)
	require.Equal(t, want, readAll(t, p, ReadCommitted))
	require.Equal(t, want, readAll(t, p, ReadUncommitted), "the aborted record is gone")
	require.NoError(t, p.Close())
}

// The index of a closed segment is damaged, and after a close the index of the last segment.
// Aborted records are not read as committed ones, and the index is rebuilt from the log. A copy
// behaves the same.
func TestDamagedTransactionIndexIsMadeAgainFromTheLog(t *testing.T) {
	damages := map[string]func(p []byte) []byte{
		"nonsense":    func(p []byte) []byte { return []byte(strings.Repeat("?", len(p))) },
		"removed":     func([]byte) []byte { return nil },
		"emptied":     func([]byte) []byte { return []byte{} },
		"cut":         func(p []byte) []byte { return p[:len(p)-1] },
		"entry gone":  func(p []byte) []byte { return p[:len(p)/2] },
		"producer id": func(p []byte) []byte { p[9] ^= 4; return p },
		"first":       func(p []byte) []byte { p[17] ^= 1; return p },
	}
	disk := vfs.Mem()
	p := openLeader(t, testConfig(disk))
	for i := range int16(6) {
		abort(t, p, 1, i, "")
		require.NoError(t, send(p, batchSpec{value: "v"}).Err)
		if i%2 == 1 && i < 5 {
			require.NoError(t, p.Roll())
		}
	}
	want := readAll(t, p, ReadCommitted)
	require.Len(t, want, 6)
	killed := disk.Kill()
	cut, err := p.Cut()
	require.NoError(t, err)
	require.NoError(t, p.BackupOf(t.Context(), cut, disk, "copy"))
	cut.Release()
	require.NoError(t, p.Close())
	for what, damage := range damages {
		for how, last := range map[string]int64{"closed": 12, "killed": 6, "copy": 12} {
			fs, dir := disk.Kill(), "p"
			switch how {
			case "killed": // the last index is rebuilt in any case
				fs = killed.Kill()
			case "copy":
				dir = how
			}
			for base := int64(0); base <= last; base += 6 {
				name := dir + "/" + segment.FileName(base, segment.TxnIndexSuffix)
				good, err := vfs.ReadFile(fs, name)
				require.NoError(t, err)
				if p := damage(slices.Clone(good)); p == nil {
					require.NoError(t, fs.Remove(name))
				} else {
					require.NoError(t, vfs.WriteFile(fs, name, p))
				}
				p, err := Open(dir, testConfig(fs))
				require.NoError(t, err)
				require.NoError(t, p.BecomeLeader(1))
				require.Equal(t, want, readAll(t, p, ReadCommitted), "%s, %s, %d", what, how, base)
				require.NoError(t, p.Close())
				again, err := vfs.ReadFile(fs, name)
				require.NoError(t, err)
				require.Equal(t, good, again, "%s, %s, %d", what, how, base)
			}
		}
	}
}

// A copy of a log, and a properly closed log, have the index that Kafka reads, with the last
// aborted transaction.
func TestTransactionIndexIsWholeWhereOthersReadIt(t *testing.T) {
	fs := vfs.Mem()
	p := openLeader(t, testConfig(fs))
	fs.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "*.txnindex", Err: syscall.ENOSPC})
	abort(t, p, 1, 0, "")
	abort(t, p, 1, 1, "")
	cut, err := p.Cut()
	require.NoError(t, err)
	require.NoError(t, p.BackupOf(t.Context(), cut, fs, "copy"))
	cut.Release()
	abort(t, p, 1, 2, "")
	require.NoError(t, p.Close())
	for dir, n := range map[string]int{"copy": 2, "p": 3} {
		l, err := log.OpenReadOnly(dir, log.Config{FS: fs})
		require.NoError(t, err)
		aborted, err := l.AbortedTxns(0, l.EndOffset())
		require.NoError(t, err)
		require.Len(t, aborted, n, dir)
		require.NoError(t, l.Close())
	}
}

// The copy of a cut has the aborts and the producers below the cut, regardless of later aborts,
// compactions and deletions.
func TestCutKnowsItsAbortsAndNoLaterOnes(t *testing.T) {
	fs := vfs.Mem()
	cfg := testConfig(fs)
	p := openLeader(t, cfg)
	abort(t, p, 1, 0, "a")
	abort(t, p, 2, 0, "b")
	require.NoError(t, p.Roll())
	abort(t, p, 1, 1, "c")
	require.NoError(t, send(p, batchSpec{pid: 3, txn: true, value: "open"}).Err)
	want, wantProducers, end0 := readAll(t, p, ReadUncommitted), p.Producers(), p.LogEndOffset()
	c, err := p.Cut()
	require.NoError(t, err)
	require.NoError(t, end(p, TxnMarker{ProducerID: 3}).Err)
	abort(t, p, 1, 2, "d")
	require.NoError(t, p.Roll())
	_, err = p.DeleteRecords(p.HighWatermark())
	require.NoError(t, err)
	_, err = p.Clean(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.BackupOf(t.Context(), c, fs, "copy"))
	c.Release()
	require.NoError(t, p.Close())

	b, err := Open("copy", cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, b.BecomeLeader(9))
	require.Equal(t, end0, b.LogEndOffset())
	require.Equal(t, want, readAll(t, b, ReadUncommitted))
	require.Equal(t, wantProducers, b.Producers())
	require.Empty(t, readAll(t, b, ReadCommitted), "all are aborted, or open")
	require.NoError(t, end(b, TxnMarker{ProducerID: 3, Commit: true}).Err)
	require.Equal(t, []seen{{6, "open0"}}, readAll(t, b, ReadCommitted))
}

// A truncation that removes a marker, as one below the high watermark does after an unclean
// election, opens its transaction again.
func TestCutBehindAMarkerOpensItsTransactionAgain(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, send(p, batchSpec{value: "plain"}).Err)
	require.NoError(t, send(p, batchSpec{pid: 1, txn: true, value: "a"}).Err)
	require.NoError(t, send(p, batchSpec{value: "behind"}).Err)
	require.NoError(t, end(p, TxnMarker{ProducerID: 1, Commit: true}).Err)
	require.Len(t, readAll(t, p, ReadCommitted), 3)
	p.BecomeFollower()
	require.NoError(t, p.TruncateTo(3))
	require.EqualValues(t, 1, p.LastStableOffset())
	require.NoError(t, p.BecomeLeader(1))
	require.EqualValues(t, 3, p.HighWatermark())
	require.Equal(t, []seen{{0, "plain0"}}, readAll(t, p, ReadCommitted))
	require.NoError(t, end(p, TxnMarker{ProducerID: 1}).Err)
	require.Equal(t, []seen{{0, "plain0"}, {2, "behind0"}}, readAll(t, p, ReadCommitted))
}
