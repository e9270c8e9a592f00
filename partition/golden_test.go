package partition

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// golden copies a partition directory that Kafka wrote into memory.
func golden(t *testing.T, name string) Config {
	fs := vfs.Mem()
	require.NoError(t, fs.MkdirAll("p", 0o755))
	files, err := filepath.Glob(filepath.Join("testdata/golden", name, "*"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(fs, "p/"+filepath.Base(file), data))
	}
	cfg := testConfig(fs)
	cfg.Log.RetentionAge = log.Unlimited
	return cfg
}

func TestKafkasTransactionsReadAsKafkaReadsThem(t *testing.T) {
	for _, snapshots := range []bool{true, false} {
		cfg := golden(t, "transactions-0")
		if !snapshots { // the log alone must be enough then
			for _, name := range []string{"p/00000000000000000010.snapshot", "p/00000000000000000069.snapshot"} {
				require.NoError(t, cfg.Log.FS.Remove(name))
			}
		}
		p := reopen(t, cfg, 1)
		require.Equal(t, int64(69), p.HighWatermark())
		require.Equal(t, int64(66), p.LastStableOffset())
		committed, uncommitted := readAll(t, p, ReadCommitted), readAll(t, p, ReadUncommitted)
		require.Len(t, committed, 30)
		require.Len(t, uncommitted, 62)

		want := newProducers(day)
		data, err := os.ReadFile("testdata/golden/transactions-0/00000000000000000069.snapshot")
		require.NoError(t, err)
		require.NoError(t, want.load(data, 0))
		require.Equal(t, want.states(), p.Producers(), "snapshots=%t", snapshots)
		require.NoError(t, end(p, TxnMarker{ProducerID: 10, Commit: true, CoordinatorEpoch: 1}).Err)
		require.Equal(t, int64(70), p.LastStableOffset())
		require.NoError(t, p.Close())
	}
}

func TestRetryOfABatchWrittenIntoKafkaIsADuplicateHere(t *testing.T) {
	known := reopen(t, golden(t, "rolled-0"), 1)
	states := known.Producers()
	require.NotEmpty(t, states)
	found, err := known.readHistory()
	require.NoError(t, err)
	require.True(t, found)
	e := known.state.m[states[0].ProducerID]
	require.Equal(t, uint8(windowSize), e.n, "the whole window, of which Kafka's snapshot has one batch")
	require.NoError(t, known.Close())

	p := reopen(t, golden(t, "rolled-0"), 1)
	defer func() { require.NoError(t, p.Close()) }()
	for _, b := range e.window[:e.n] {
		res := send(p, batchSpec{pid: states[0].ProducerID, epoch: e.epoch, seq: b.firstSeq(), n: int(b.offsetDelta) + 1})
		require.NoError(t, res.Err)
		require.True(t, res.Duplicate)
		require.Equal(t, b.baseOffset(), res.BaseOffset)
	}
}
