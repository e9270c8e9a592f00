package partition

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// restarts are the ways a partition can stop without the loss of an acknowledged record.
var restarts = map[string]func(t *testing.T, p *Partition, fs *vfs.MemFS) *vfs.MemFS{
	"clean": func(t *testing.T, p *Partition, fs *vfs.MemFS) *vfs.MemFS {
		require.NoError(t, p.Close())
		return fs
	},
	"killed": func(_ *testing.T, _ *Partition, fs *vfs.MemFS) *vfs.MemFS { return fs.Kill() },
	"power cut": func(_ *testing.T, _ *Partition, fs *vfs.MemFS) *vfs.MemFS {
		return fs.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	},
}

// eachRestart runs a test that stops its partition with down, which returns it reopened.
func eachRestart(t *testing.T, cfg func(*Config), test func(t *testing.T, p *Partition, down func(*Partition) *Partition)) {
	for name, restart := range restarts {
		t.Run(name, func(t *testing.T) {
			fs := vfs.Mem()
			open := func() *Partition {
				c := testConfig(fs)
				if cfg != nil {
					cfg(&c)
				}
				p, err := Open("p", c)
				require.NoError(t, err)
				t.Cleanup(func() { _ = p.Close() })
				return p
			}
			epoch := int32(0)
			p := open()
			require.NoError(t, p.BecomeLeader(epoch))
			test(t, p, func(p *Partition) *Partition {
				fs = restart(t, p, fs)
				epoch++
				p = open()
				require.NoError(t, p.BecomeLeader(epoch))
				return p
			})
		})
	}
}

// A snapshot has only the last batch of each producer, as in Kafka. The last five are found by
// reading back before the snapshot, when a batch is out of order for the first time.
func TestRetryOfAnyOfTheLastFiveBatchesIsRecognisedAfterARestart(t *testing.T) {
	eachRestart(t, nil, func(t *testing.T, p *Partition, down func(*Partition) *Partition) {
		for seq := range int32(7) {
			require.NoError(t, send(p, batchSpec{pid: 1, seq: seq}).Err)
			require.NoError(t, send(p, batchSpec{pid: 2, epoch: 1, seq: seq}).Err)
		}
		for range 2 { // also without a batch in between
			p = down(p)
			for seq := int32(2); seq < 7; seq++ {
				res := send(p, batchSpec{pid: 1, seq: seq})
				require.NoError(t, res.Err)
				require.True(t, res.Duplicate)
				require.Equal(t, int64(2*seq), res.BaseOffset)
				require.True(t, send(p, batchSpec{pid: 2, epoch: 1, seq: seq}).Duplicate)
			}
			require.ErrorIs(t, send(p, batchSpec{pid: 1, seq: 1}).Err, ErrOutOfOrderSequence)
		}
		require.NoError(t, send(p, batchSpec{pid: 1, seq: 7}).Err)
		require.ErrorIs(t, send(p, batchSpec{pid: 2, epoch: 0, seq: 7}).Err, ErrInvalidProducerEpoch)
		require.Equal(t, int64(15), p.LogEndOffset())
	})
}

func TestStateSurvivesARestartOverManySegments(t *testing.T) {
	small := func(c *Config) { c.Log.SegmentBytes = 600 }
	eachRestart(t, small, func(t *testing.T, p *Partition, down func(*Partition) *Partition) {
		seqs := map[int64]int32{}
		for round := range 4 {
			for i := range 30 {
				pid := int64(1 + (round+i*i)%4)
				require.NoError(t, send(p, batchSpec{pid: pid, seq: seqs[pid], n: 2, txn: pid == 3}).Err, "%d %d", round, i)
				seqs[pid] += 2
				if pid == 3 && i%2 == 0 {
					require.NoError(t, end(p, TxnMarker{ProducerID: 3, Commit: i%4 == 0}).Err)
				}
			}
			want, open, aborted := p.Producers(), p.LastStableOffset(), readAll(t, p, ReadCommitted)
			p = down(p)
			require.Equal(t, want, p.Producers())
			require.Equal(t, open, p.LastStableOffset())
			require.Equal(t, aborted, readAll(t, p, ReadCommitted))
			for pid, seq := range seqs {
				for back := int32(2); back <= 10 && back <= seq; back += 2 {
					res := send(p, batchSpec{pid: pid, seq: seq - back, n: 2, txn: pid == 3})
					require.NoError(t, res.Err, "pid %d, %d batches back", pid, back/2)
					require.True(t, res.Duplicate)
				}
			}
		}
		require.Greater(t, len(p.log.Segments()), 10)
	})
}

func TestOpenTransactionSurvivesARestart(t *testing.T) {
	eachRestart(t, nil, func(t *testing.T, p *Partition, down func(*Partition) *Partition) {
		send(p, batchSpec{pid: 1, txn: true, value: "a"})
		send(p, batchSpec{value: "b"})
		p = down(p)
		require.Zero(t, p.LastStableOffset())
		require.NoError(t, send(p, batchSpec{pid: 1, seq: 1, txn: true, value: "c"}).Err)
		require.NoError(t, end(p, TxnMarker{ProducerID: 1}).Err)
		p = down(p)
		require.Equal(t, []seen{{1, "b0"}}, readAll(t, p, ReadCommitted))
		require.Equal(t, int64(4), p.LastStableOffset())
	})
}

func TestDamagedSnapshotIsReplacedByAnOlderOneAndTheLog(t *testing.T) {
	fs := vfs.Mem()
	cfg := testConfig(fs)
	cfg.Log.SegmentBytes = 400
	p := reopen(t, cfg, 0)
	for seq := range int32(20) {
		require.NoError(t, send(p, batchSpec{pid: 1, seq: seq}).Err)
	}
	require.NoError(t, p.Close())
	entries, err := fs.ReadDir("p")
	require.NoError(t, err)
	damaged := 0
	for i := len(entries) - 1; i >= 0 && damaged < 2; i-- {
		if name := "p/" + entries[i].Name(); len(name) > 9 && name[len(name)-9:] == ".snapshot" {
			require.NoError(t, vfs.WriteFile(fs, name, []byte(fmt.Sprint("damaged ", i))))
			damaged++
		}
	}
	require.Equal(t, 2, damaged)
	p = reopen(t, cfg, 1)
	defer func() { require.NoError(t, p.Close()) }()
	for seq := int32(15); seq < 20; seq++ {
		require.True(t, send(p, batchSpec{pid: 1, seq: seq}).Duplicate)
	}
	require.NoError(t, send(p, batchSpec{pid: 1, seq: 20}).Err)
}

// The records below the snapshot are deleted from the log: with an older state the batch would be
// written again.
func TestSnapshotThatCannotBeReadIsNotTakenForDamaged(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpStat, vfs.OpRead, vfs.OpClose} {
		t.Run(op.String(), func(t *testing.T) {
			fs := vfs.Mem()
			p := openLeader(t, testConfig(fs))
			require.NoError(t, send(p, batchSpec{pid: 1}).Err)
			require.NoError(t, p.Roll())
			require.NoError(t, send(p, batchSpec{}).Err)
			_, err := p.DeleteRecords(2)
			require.NoError(t, err)
			_, err = p.Clean(t.Context())
			require.NoError(t, err)
			require.NoError(t, p.Close())

			fs.Inject(vfs.Fault{Ops: op, Pattern: "*.snapshot", Err: syscall.EMFILE})
			_, err = Open("p", testConfig(fs))
			require.ErrorIs(t, err, syscall.EMFILE)
			p = reopen(t, testConfig(fs), 1)
			require.True(t, send(p, batchSpec{pid: 1}).Duplicate)
			require.NoError(t, p.Close())
		})
	}
}

func TestWithoutSnapshotsTheWholeLogIsReplayed(t *testing.T) {
	fs := vfs.Mem()
	cfg := testConfig(fs)
	cfg.Log.SegmentBytes = 400
	p := reopen(t, cfg, 0)
	for seq := range int32(20) {
		require.NoError(t, send(p, batchSpec{pid: int64(1 + seq%2), seq: seq / 2}).Err)
	}
	want := p.Producers()
	require.NoError(t, p.Close())
	entries, err := fs.ReadDir("p")
	require.NoError(t, err)
	for _, e := range entries {
		if name := "p/" + e.Name(); len(name) > 9 && name[len(name)-9:] == ".snapshot" {
			require.NoError(t, fs.Remove(name))
		}
	}
	p = reopen(t, cfg, 1)
	require.Equal(t, want, p.Producers(), "Kafka would have forgotten them")
	require.NoError(t, p.Close())
}

func TestDirectoryOfAnotherTopicIsRefused(t *testing.T) {
	cfg := testConfig(vfs.Mem())
	cfg.TopicID = [16]byte{1, 2, 3}
	p := reopen(t, cfg, 0)
	data, err := vfs.ReadFile(cfg.Log.FS, "p/partition.metadata")
	require.NoError(t, err)
	require.Equal(t, "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAAAA", string(data))
	require.NoError(t, p.Close())
	require.NoError(t, reopen(t, cfg, 1).Close())
	cfg.TopicID[0] = 9
	_, err = Open("p", cfg)
	require.ErrorIs(t, err, ErrInconsistentTopicID)
}

// TestWithoutSyncAPowerCutLosesAcknowledgedRecords is the counterpart of the restart tests: it
// shows that they can fail.
func TestWithoutSyncAPowerCutLosesAcknowledgedRecords(t *testing.T) {
	fs := vfs.Mem()
	cfg := testConfig(fs)
	cfg.Log.Sync = log.SyncNever
	p := reopen(t, cfg, 0)
	for seq := range int32(5) {
		require.NoError(t, send(p, batchSpec{pid: 1, seq: seq}).Err)
	}
	cut := restarts["power cut"](t, p, fs)
	require.NoError(t, p.Close())
	cfg.Log.FS = cut
	p = reopen(t, cfg, 1)
	require.Less(t, p.LogEndOffset(), int64(5))
	require.NoError(t, p.Close())
}

// TestWithoutProducerIDsARetryIsADuplicate is the counterpart of the tests of retries.
func TestWithoutProducerIDsARetryIsADuplicate(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	batch := batchSpec{value: "v"}.build()
	for range 2 {
		require.NoError(t, sendBytes(p, batch, record.AcksAll).Err)
	}
	require.Equal(t, []seen{{0, "v0"}, {1, "v0"}}, readAll(t, p, ReadCommitted))
}
