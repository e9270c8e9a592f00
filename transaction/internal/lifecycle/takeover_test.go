package lifecycle

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// kafkas returns the records of each id in a __transaction_state that a real Kafka wrote.
func kafkas(t *testing.T) map[string][]txnlog.Record {
	t.Helper()
	files, err := filepath.Glob("../../../internal/txnlog/testdata/*.log")
	require.NoError(t, err)
	require.Len(t, files, 3)
	logs := map[string][]txnlog.Record{}
	for _, file := range files {
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				rec, known, err := txnlog.ParseRecord(r.Key, r.Value)
				require.NoError(t, err)
				require.True(t, known)
				logs[rec.ID] = append(logs[rec.ID], rec)
			}
			p = p[n:]
		}
	}
	return logs
}

// This coordinator continues from any state that Kafka's coordinator had written when it died.
func TestTransactionsOfKafkasCoordinatorGoOn(t *testing.T) {
	cfg := Config{Version: 2, MaxTimeout: time.Hour, Expiration: time.Hour}
	met := map[txnlog.State]int{}
	logs := kafkas(t)
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		for n := 1; n <= len(logs[id]); n++ {
			m := New(id, &cfg)
			for _, r := range logs[id][:n] {
				m.Apply(r)
			}
			v := logs[id][n-1].Value
			met[v.State]++
			require.Equal(t, v.State, m.State())
			now := time.UnixMilli(v.UpdateMs)
			eff := m.Step(now, EventLoaded{})
			m.Accept()
			switch k, _ := eff.Committed.(*Markers); {
			case v.State.Prepared():
				require.Equal(t, Markers{ID: id, ProducerID: v.ProducerID, Epoch: v.Epoch, Commit: v.State == txnlog.PrepareCommit, Version: 2, Partitions: m.Value().Partitions}, *k)
				require.ElementsMatch(t, v.Partitions, k.Partitions)
				m.Step(now, EventMarked{Markers: k, Partitions: v.Partitions})
				m.Accept()
				require.True(t, m.State().Complete())
			case v.State == txnlog.Ongoing:
				eff = m.Step(now, EventVerify{ProducerID: v.ProducerID, Epoch: v.Epoch, Partitions: v.Partitions, To: 1})
				m.Accept()
				require.Equal(t, []machine.Reply{{To: 1, Value: make([]error, len(v.Partitions))}}, eff.Replies, "in whatever order they are")
				require.Equal(t, time.UnixMilli(v.StartMs+int64(v.TimeoutMs)), eff.WakeAt)
				m.Step(eff.WakeAt, EventTick{})
				m.Accept()
				require.Equal(t, txnlog.PrepareAbort, m.State())
			default:
				require.Nil(t, k)
				eff = m.Step(now, EventInit{Timeout: time.Minute, ProducerID: v.ProducerID, Epoch: v.Epoch, To: 1})
				m.Accept()
				require.Equal(t, []machine.Reply{{To: 1, Value: Producer{v.ProducerID, v.Epoch + 1}}}, eff.Replies)
			}
		}
	}
	require.Len(t, met, 6, "states")
}
