package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestProduceAssignsConsecutiveOffsetsAndTheLeadersEpoch(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, p.BecomeLeader(4))
	for i, want := range []int64{0, 3, 6} {
		res := send(p, batchSpec{n: 3, value: "v"})
		require.Equal(t, ProduceResult{BaseOffset: want, LogAppendTimeMs: -1, LeaderEpoch: 4}, res, "batch %d", i)
	}
	require.Equal(t, int64(9), p.LogEndOffset())
	require.Equal(t, int64(9), p.HighWatermark())
	res, err := p.Read(ReadRequest{CurrentLeaderEpoch: 4})
	require.NoError(t, err)
	b, _, err := record.Parse(res.Bytes)
	require.NoError(t, err)
	require.Equal(t, int32(4), b.LeaderEpoch)
	require.Len(t, readAll(t, p, ReadCommitted), 9)
}

func TestRetryOfAWrittenBatchIsAnsweredWithTheOriginalOffset(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	send(p, batchSpec{n: 2})
	first := send(p, batchSpec{pid: 5, n: 3, ts: 77})
	for i := range int32(4) {
		require.NoError(t, send(p, batchSpec{pid: 5, seq: 3 + i}).Err)
	}
	for _, acks := range []record.Acks{record.AcksAll, record.AcksLeader, record.AcksNone} {
		again := sendBytes(p, batchSpec{pid: 5, n: 3, ts: 77}.build(), acks)
		require.Equal(t, ProduceResult{BaseOffset: first.BaseOffset, LogAppendTimeMs: 77, Duplicate: true}, again)
	}
	require.Equal(t, int64(9), p.LogEndOffset())
	require.NoError(t, send(p, batchSpec{pid: 5, seq: 7}).Err)
	require.ErrorIs(t, send(p, batchSpec{pid: 5, n: 3}).Err, ErrOutOfOrderSequence, "the sixth newest")
	require.Equal(t, int64(3), p.Stats().Duplicates)
}

func TestBatchesThatALeaderMustNotTakeAreRefused(t *testing.T) {
	now := time.Now().UnixMilli()
	edit := func(s batchSpec, f func(p []byte)) []byte { p := s.build(); f(p); return p }
	for name, c := range map[string]struct {
		batch []byte
		cfg   func(*Config)
		want  error
	}{
		"flipped bit":           {batch: edit(batchSpec{}, func(p []byte) { p[len(p)-1] ^= 1 }), want: ErrCorrupt},
		"base offset":           {batch: edit(batchSpec{}, func(p []byte) { record.SetBaseOffset(p, 1) }), want: ErrInvalidRecord},
		"magic 1":               {batch: edit(batchSpec{}, func(p []byte) { p[16] = 1 }), want: ErrInvalidRecord},
		"cut short":             {batch: batchSpec{}.build()[:65], want: ErrInvalidRecord},
		"empty":                 {batch: nil, want: ErrInvalidRecord},
		"two batches":           {batch: append(batchSpec{}.build(), batchSpec{}.build()...), want: ErrInvalidRecord},
		"marker from a client":  {batch: record.ControlBatch(nil, record.ControlCommit, 0, record.ControlInfo{ProducerID: 1}), want: ErrInvalidRecord},
		"too large":             {batch: batchSpec{value: strings.Repeat("x", 300)}.build(), cfg: func(c *Config) { c.Log.MaxBatchBytes = 300 }, want: ErrRecordTooLarge},
		"larger than a segment": {batch: batchSpec{value: strings.Repeat("x", 300)}.build(), cfg: func(c *Config) { c.Log.SegmentBytes = 300 }, want: ErrBatchTooLarge},
		"no key on a compacted topic": {batch: batchSpec{}.build(), cfg: func(c *Config) { c.Log.Cleanup = log.CleanupCompact },
			want: ErrInvalidRecord},
		"from the future":       {batch: batchSpec{ts: now + 2*3600*1000}.build(), want: ErrInvalidTimestamp},
		"from too far back":     {batch: batchSpec{ts: now - 10_000}.build(), cfg: func(c *Config) { c.TimestampBeforeMax = time.Second }, want: ErrInvalidTimestamp},
		"larger after recoding": {batch: batchSpec{value: strings.Repeat("x", 3000), codec: record.Gzip}.build(), cfg: func(c *Config) { c.Log.MaxBatchBytes = 1000; c.Compression = CompressWith(record.None) }, want: ErrRecordTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(vfs.Mem())
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			p := openLeader(t, cfg)
			res := sendBytes(p, c.batch, record.AcksAll)
			require.ErrorIs(t, res.Err, c.want)
			require.Equal(t, int64(-1), res.BaseOffset)
			require.Zero(t, p.LogEndOffset())
			require.NoError(t, send(p, batchSpec{key: "k"}).Err, "the partition goes on")
		})
	}
}

func TestRefusalNamesTheBadRecords(t *testing.T) {
	cfg := testConfig(vfs.Mem())
	cfg.Log.Cleanup = log.CleanupCompact
	p := openLeader(t, cfg)
	res := send(p, batchSpec{n: 2})
	require.ErrorIs(t, res.Err, ErrInvalidRecord)
	require.Len(t, res.Records, 2)
	require.Equal(t, int32(1), res.Records[1].Index)
	require.NotEmpty(t, res.Records[1].Reason)
}

func TestTimestampBoundsAreAsConfigured(t *testing.T) {
	now := time.Now().UnixMilli()
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, send(p, batchSpec{ts: 1}).Err, "old records are fine by default")
	require.NoError(t, send(p, batchSpec{ts: now + 3000_000}).Err, "50 minutes ahead too")
	cfg := testConfig(vfs.Mem())
	cfg.TimestampAfterMax = log.Unlimited
	require.NoError(t, send(openLeader(t, cfg), batchSpec{ts: now * 2}).Err)
}

func TestAppendTimeReplacesTheProducersTimestamps(t *testing.T) {
	cfg := testConfig(vfs.Mem())
	cfg.TimestampType = record.LogAppendTime
	p := openLeader(t, cfg)
	before := time.Now().UnixMilli()
	batch := batchSpec{pid: 3, n: 2, ts: 1000}.build()
	sent := slices.Clone(batch)
	res := sendBytes(p, batch, record.AcksAll)
	require.NoError(t, res.Err)
	require.GreaterOrEqual(t, res.LogAppendTimeMs, before)
	require.Equal(t, sent, batch, "the caller's bytes are not written to")
	b := firstBatch(t, p)
	require.Equal(t, record.LogAppendTime, b.TimestampType())
	require.Equal(t, res.LogAppendTimeMs, b.MaxTimestamp)
	again := sendBytes(p, batch, record.AcksAll)
	require.True(t, again.Duplicate)
	require.Equal(t, res.LogAppendTimeMs, again.LogAppendTimeMs, "of the stored batch")
}

func TestTopicsCompressionReplacesTheProducers(t *testing.T) {
	for _, to := range []record.Codec{record.None, record.Gzip, record.Zstd} {
		cfg := testConfig(vfs.Mem())
		cfg.Compression = CompressWith(to)
		p := openLeader(t, cfg)
		for _, from := range []record.Codec{record.None, record.LZ4, record.Zstd} {
			require.NoError(t, send(p, batchSpec{n: 50, value: "v", codec: from}).Err)
		}
		require.Equal(t, to, firstBatch(t, p).Codec())
		require.Len(t, readAll(t, p, ReadCommitted), 150)
	}
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, send(p, batchSpec{n: 50, codec: record.Snappy}).Err)
	require.Equal(t, record.Snappy, firstBatch(t, p).Codec(), "kept by default")
}

func TestWrongMaxTimestampOfAProducerIsCorrected(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	batch := batchSpec{ts: 5000}.build()
	record.Stamp(batch, record.CreateTime, 9_000_000)
	require.NoError(t, sendBytes(p, batch, record.AcksAll).Err)
	require.Equal(t, int64(5000), firstBatch(t, p).MaxTimestamp)
}

func TestStoredBytesAreTheProducersButForOffsetAndEpoch(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	send(p, batchSpec{n: 7})
	batch := batchSpec{pid: 9, n: 100, value: strings.Repeat("x", 50), codec: record.LZ4}.build()
	require.NoError(t, sendBytes(p, batch, record.AcksAll).Err)
	res, err := p.Read(ReadRequest{Offset: 7, CurrentLeaderEpoch: -1})
	require.NoError(t, err)
	require.Equal(t, uint64(7), binary.BigEndian.Uint64(res.Bytes))
	record.SetBaseOffset(res.Bytes, 0)
	record.SetLeaderEpoch(res.Bytes, -1)
	require.True(t, bytes.Equal(batch, res.Bytes))
}

func TestOnlyALeaderTakesAppends(t *testing.T) {
	p, err := Open("p", testConfig(vfs.Mem()))
	require.NoError(t, err)
	require.Equal(t, int32(-1), p.LeaderEpoch())
	require.ErrorIs(t, send(p, batchSpec{}).Err, ErrNotLeader)
	_, err = p.Read(ReadRequest{CurrentLeaderEpoch: -1})
	require.ErrorIs(t, err, ErrNotLeader)
	_, err = p.ListOffset(Latest, ReadCommitted)
	require.ErrorIs(t, err, ErrNotLeader)
	require.ErrorIs(t, end(p, TxnMarker{ProducerID: 1}).Err, ErrNotLeader)
	require.NoError(t, p.Close())
	require.ErrorIs(t, send(p, batchSpec{}).Err, ErrClosed)
}

func TestInvalidAcksAreRefused(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	require.ErrorIs(t, sendBytes(p, batchSpec{}.build(), 7).Err, ErrInvalidAcks)
	require.ErrorIs(t, sendBytes(p, batchSpec{}.build(), -1).Err, ErrInvalidAcks)
}

func TestTransactionalBatchNeedsATransactionalID(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	_, err := p.AppendSync(t.Context(), batchSpec{pid: 1, txn: true}.build(), record.AcksAll)
	require.ErrorIs(t, err, ErrTransactionalID)
}

func TestCancelledAppendSyncLeavesTheAppendAndItsBytesAlone(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch := batchSpec{value: "kept"}.build()
	_, err := p.AppendSync(ctx, batch, record.AcksAll)
	clear(batch) // the caller owns it again
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	send(p, batchSpec{value: "next"})
	require.Equal(t, []seen{{0, "kept0"}, {1, "next0"}}, readAll(t, p, ReadCommitted))
}

func TestRequestCanBeUsedAgain(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	done := make(chan ProduceResult, 1)
	req := &ProduceRequest{Batch: batchSpec{pid: 1}.build(), Timeout: time.Minute, Done: func(r ProduceResult) { done <- r }}
	for _, duplicate := range []bool{false, true, true} {
		p.Produce(req)
		require.Equal(t, duplicate, (<-done).Duplicate)
	}
	req.Batch = batchSpec{pid: 1, seq: 1}.build()
	p.Produce(req)
	require.Equal(t, ProduceResult{BaseOffset: 1, LogAppendTimeMs: -1}, <-done)
}

func firstBatch(t *testing.T, p *Partition) *record.Batch {
	t.Helper()
	res, err := p.Read(ReadRequest{Offset: p.LogStartOffset(), CurrentLeaderEpoch: -1})
	require.NoError(t, err)
	b, _, err := record.Parse(res.Bytes)
	require.NoError(t, err)
	return b
}
