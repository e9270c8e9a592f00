package log

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// A cleanModel is a log as a list of records, never compacted.
type cleanModel struct {
	records    []string // by offset, "key=value" or "key"
	start      int
	high       int // records below are never truncated
	operations []string
}

func (m *cleanModel) table() map[string]string {
	var out []string
	for i, kv := range m.records[m.start:] {
		out = append(out, fmt.Sprintf("%d:%s", m.start+i, kv))
	}
	return lastValues(strings.Join(out, " "))
}

// step does one random operation on the log and the model.
func (m *cleanModel) step(t *testing.T, rnd *rand.Rand, l *Log) {
	end := len(m.records)
	switch rnd.IntN(12) {
	case 0:
		m.operations = append(m.operations, "roll")
		require.NoError(t, l.Roll())
	case 1:
		m.operations = append(m.operations, "clean")
		_, err := l.Clean(t.Context())
		require.NoError(t, err)
	case 2:
		m.high = max(m.high, end-rnd.IntN(6))
		m.operations = append(m.operations, fmt.Sprint("high watermark ", m.high))
		l.SetHighWatermark(int64(m.high))
	case 3:
		if to := m.high + rnd.IntN(end-m.high+1); to < end {
			m.operations = append(m.operations, fmt.Sprint("truncate to ", to))
			require.NoError(t, l.TruncateTo(int64(to)))
			m.records = m.records[:to]
		}
	case 4:
		if rnd.IntN(4) == 0 && m.high > m.start {
			m.start += rnd.IntN(m.high - m.start)
			m.operations = append(m.operations, fmt.Sprint("delete records before ", m.start))
			require.NoError(t, l.DeleteRecords(int64(m.start)))
		}
	default:
		kv := fmt.Sprintf("k%d=%d", rnd.IntN(12), end)
		if rnd.IntN(5) == 0 {
			kv, _, _ = strings.Cut(kv, "=")
		}
		m.operations = append(m.operations, "append "+kv)
		appendKV(t, l, kv)
		m.records = append(m.records, kv)
	}
}

// check compares the tables, and compares every record with the record that was appended at its
// offset.
func (m *cleanModel) check(t *testing.T, l *Log) {
	require.EqualValues(t, len(m.records), l.EndOffset())
	require.EqualValues(t, m.start, l.StartOffset())
	dump := logDump(t, l)
	require.Equal(t, m.table(), lastValues(dump), "%s", dump)
	for _, f := range strings.Fields(dump) {
		var offset int
		_, err := fmt.Sscanf(f, "%d:", &offset)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d:%s", offset, m.records[offset]), f)
	}
}

// Appends, rolls, truncation, deletion, compaction, restarts and power cuts in random order. The
// table that a reader builds always equals the table of a list that is never compacted, for all
// segment sizes and sync policies.
func TestCompactedLogAgainstAList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		cfg := compacting
		cfg.SegmentBytes = []int64{200, 700, 1 << 20}[seed%3]
		cfg.Sync = []SyncPolicy{SyncOnAck, SyncNever}[seed%2]
		rnd := rand.New(rand.NewPCG(seed, 1))
		fsys := vfs.Mem()
		l := openClean(t, fsys, cfg)
		l.SetHighWatermark(0)
		m := &cleanModel{}
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d:\n%s", seed, strings.Join(m.operations, "\n"))
				}
			}()
			for step := range 200 {
				m.step(t, rnd, l)
				if step%20 != 19 {
					continue
				}
				m.check(t, l)
				if rnd.IntN(2) == 0 {
					m.operations = append(m.operations, "power cut")
					require.NoError(t, l.Sync())
					disk := fsys.Crash(rnd.Uint64())
					require.NoError(t, l.Close())
					fsys = disk
				} else {
					m.operations = append(m.operations, "reopen")
					require.NoError(t, l.Close())
				}
				l = openClean(t, fsys, cfg)
				l.SetHighWatermark(int64(m.high))
				m.check(t, l)
			}
		}()
		require.NoError(t, l.Close())
	}
}
