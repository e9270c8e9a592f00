package kafkadir

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A cluster that is exported to Kafka's files and imported again is the same, byte by byte. This
// also holds if the broker in between was killed and left no clean shutdown file.
func TestWhatIsExportedIsImportedAsItWas(t *testing.T) {
	for _, end := range []string{"stopped", "killed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			disk := fill(t)
			want := look(t, disk, "data")
			require.Len(t, want.users, 2)
			require.Len(t, want.acls, 1)
			require.Len(t, want.quotas, 3)
			require.Len(t, want.tokens, 1)
			require.Equal(t, map[string]map[string]string{
				"slow": {"interval.ms": "30000", "match": "client_id=web.*"}, "group readers": {"consumer.session.timeout.ms": "50000"},
			}, want.configs)
			require.Len(t, want.states, 3)
			require.NotEmpty(t, want.offsets)

			out, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
			require.NoError(t, err)
			require.Equal(t, want, look(t, disk, "data"), "it is only read")
			if end == "killed" {
				require.NoError(t, disk.Remove(filepath.Join("kafka", cleanShutdownFile)))
			}
			before := files(t, disk, "kafka")
			for name := range before {
				require.NotContains(t, name, "strata.", "it is Kafka's")
			}
			in, err := Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk})
			require.NoError(t, err)
			require.Equal(t, before, files(t, disk, "kafka"), "it is only read")

			got := look(t, disk, "back")
			for name, off := range map[string]bool{"orders": false, "latest": false, "never.written": true} {
				at := strings.Contains(got.topics[name], " retention.ms=-1")
				require.Equal(t, off, at, name)
				got.topics[name] = strings.Replace(got.topics[name], " retention.ms=-1", "", 1)
			}
			for name := range internalTopics { // Kafka's settings were imported
				if want.topics[name] != "" {
					require.Contains(t, got.topics[name], "cleanup.policy=compact")
					got.topics[name] = want.topics[name]
				}
			}
			require.Equal(t, want, got)
			require.Equal(t, end == "stopped", in.Clean)
			require.Empty(t, in.Gaps)
			require.Equal(t, out.ClusterID, in.ClusterID)
			require.Equal(t, 1, in.OpenTransactions)
			require.Equal(t, []int{1, 1}, []int{in.Tokens, out.Tokens})
			require.GreaterOrEqual(t, in.NextProducerID, out.NextProducerID)
			require.Equal(t, []string{"never.written"}, retentionOff(in))
		})
	}
}

func retentionOff(r *Report) (names []string) {
	for _, t := range r.Topics {
		if t.RetentionOff {
			names = append(names, t.Name)
		}
	}
	return names
}

// Producer ids in the imported files are not allocated again, even without the metadata.
func TestProducerIDsOfTheSourceAreNotGivenOutAgain(t *testing.T) {
	disk := fill(t)
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	require.NoError(t, disk.RemoveAll(filepath.Join("kafka", metadataDir)))
	r, err := Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk})
	require.NoError(t, err)
	require.False(t, r.Metadata)
	c := open(t, disk, "back")
	defer func() { require.NoError(t, c.Close()) }()
	all, err := c.Transactions(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	id, _, err := c.InitProducerID(t.Context())
	require.NoError(t, err)
	for _, d := range all {
		require.Greater(t, id, d.Producer.ID)
	}
	raw := batches(t, c, record.TopicPartition{Topic: "latest"}, 0, 60) // of a producer without transactions
	for len(raw) > 0 {
		b, n, err := record.Parse(raw)
		require.NoError(t, err)
		require.GreaterOrEqual(t, b.ProducerID, int64(0))
		require.Greater(t, id, b.ProducerID)
		raw = raw[n:]
	}
}

// The next producer with the transactional id aborts a transaction that was open at the export.
// Then the whole log can be read.
func TestOpenTransactionsAreEndedBehindAnImport(t *testing.T) {
	disk := fill(t)
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	_, err = Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: disk})
	require.NoError(t, err)
	c := open(t, disk, "back")
	defer func() { require.NoError(t, c.Close()) }()
	p, err := producer.New(c, producer.Config{TransactionalID: "open"})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Transact(t.Context(), func(txn *producer.Txn) error {
		return txn.Send(t.Context(), record.String("orders", "open", "next").To(0))
	}))
	for r, err := range consumer.Follow(t.Context(), c, consumer.ReadConfig{Topic: "orders"}) { // Commit does not wait for markers
		require.NoError(t, err)
		if string(r.Value) == "next" {
			break
		}
	}
	var seen []string
	for _, v := range readCommitted(t, c, "orders") {
		if len(v) < 100 {
			seen = append(seen, v)
		}
	}
	require.Equal(t, []string{"in a transaction", "next"}, seen, "one of three is committed, and the next one")
}

// A crash at any call of Import or Export leaves no directory or a complete one, and another
// attempt works.
func TestCrashAtEveryCallOfAnImportAndAnExport(t *testing.T) {
	small := fill(t)
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: small})
	require.NoError(t, err)
	want := look(t, small.Kill(), "data")
	for name, what := range map[string]struct {
		made string
		run  func(fsys vfs.FS) error
	}{
		"import": {"back", func(fsys vfs.FS) error {
			_, err := Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: fsys, workers: 1})
			return err
		}},
		"export": {"out", func(fsys vfs.FS) error {
			_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "out", FS: fsys, workers: 1})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			every := 60
			if sample.Hurried() {
				every = 100
			}
			chosen := sample.OneIn(t, every)
			disk := small.Kill()
			var cuts []*vfs.MemFS
			n := 0
			var mu sync.Mutex // logs are closed concurrently
			stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
				if e.Op&vfs.OpChange == 0 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				last := e.Op == vfs.OpRename && e.Name == what.made+unfinishedSuffix
				if n++; chosen(n) || last {
					cuts = append(cuts, disk.Kill(), disk.Crash(uint64(n)),
						disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashKept}))
				}
			}})
			require.NoError(t, what.run(disk))
			stop()
			cuts = append(cuts, disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
			require.Greater(t, n, 100)
			for i, cut := range cuts {
				_, err := cut.Stat(what.made)
				if err != nil {
					require.ErrorIs(t, err, os.ErrNotExist)
					require.NotEqual(t, len(cuts)-1, i, "it had returned")
					require.NoError(t, what.run(cut), i)
				} else {
					require.ErrorIs(t, what.run(cut), os.ErrExist)
				}
				_, err = cut.Stat(what.made + unfinishedSuffix)
				require.ErrorIs(t, err, os.ErrNotExist)
				back := "back"
				if name == "export" {
					_, err := Import(t.Context(), ImportConfig{From: []string{"out"}, Dir: back, FS: cut})
					require.NoError(t, err)
				}
				got := look(t, cut, back)
				require.Equal(t, want.logs, got.logs, i)
				require.Equal(t, want.offsets, got.offsets)
				require.Equal(t, want.users, got.users)
				require.Equal(t, want.acls, got.acls)
			}
		})
	}
}
