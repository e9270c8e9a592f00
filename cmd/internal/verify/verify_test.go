package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestDirectoriesWrittenByKafkaAreGood(t *testing.T) {
	m := golden(t)
	for _, dir := range []string{"/log", "/killed/rolled-0", "/killed/transactions-0"} {
		n, fs := check(t, m, dir)
		require.Empty(t, damages(fs), dir)
		require.Positive(t, n.Records)
	}
	n, _ := check(t, m, "/log")
	require.Equal(t, Counts{Partitions: 27, Segments: 35, Files: 201, Batches: 394, Records: 2224, Bytes: 434036, Notes: 1}, n)
}

func TestVerifyChangesNothing(t *testing.T) {
	m := golden(t)
	changes := 0
	m.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			changes++
		}
	}})
	check(t, m, "/log")
	require.Zero(t, changes)
}

// The kinds of files whose bytes are all checked: by a checksum, or against the segment of an
// entry.
func TestFlippedBitsAreDamage(t *testing.T) {
	for _, c := range []struct {
		name, root string
		fs         *vfs.MemFS
	}{{"kafka", "/log", golden(t)}, {"strata", "/data/broker-1", strataDirectory(t)}} {
		t.Run(c.name, func(t *testing.T) {
			seed := rand.Uint64()
			rnd, flips := rand.New(rand.NewPCG(seed, 0)), map[kafkafile.Kind]int{}
			for _, name := range files(t, c.fs, c.root) {
				kind, _ := kafkafile.KindOf(name)
				p, dir := read(t, c.fs, name), filepath.Dir(name)
				switch kind {
				case kafkafile.Log, kafkafile.Index, kafkafile.TimeIndex, kafkafile.TxnIndex, kafkafile.Snapshot, kafkafile.State:
				default:
					continue
				}
				if filepath.Base(dir) == "__cluster_metadata-0" && c.name == "kafka" {
					continue // no file there records whether its log was closed in order
				}
				for range min(12, 8*len(p)) {
					bit := rnd.IntN(8 * len(p))
					p[bit/8] ^= 1 << (bit % 8)
					write(t, c.fs, name, p)
					_, fs := check(t, c.fs, dir)
					require.NotEmpty(t, damages(fs), "seed %d: byte %d bit %d of %s", seed, bit/8, bit%8, name)
					p[bit/8] ^= 1 << (bit % 8)
					flips[kind]++
				}
				write(t, c.fs, name, p)
			}
			t.Log(flips)
			require.Greater(t, flips[kafkafile.Log], 30)
			require.Greater(t, flips[kafkafile.Snapshot], 30)
			require.Greater(t, flips[kafkafile.TimeIndex], 30)
			_, fs := check(t, c.fs, c.root)
			require.Empty(t, damages(fs))
		})
	}
}

func TestDamagedTextFiles(t *testing.T) {
	for _, c := range []struct{ file, from, to string }{
		{"recovery-point-offset-checkpoint", "0\n26", "1\n26"},
		{"recovery-point-offset-checkpoint", "0\n26", "0\n25"},
		{"recovery-point-offset-checkpoint", "codec-zstd 0 300", "codec-zstd 0 301"},
		{"recovery-point-offset-checkpoint", "codec-zstd 0 300", "codec-zstd 0 299"},
		{"recovery-point-offset-checkpoint", "codec-zstd 0 300", "codec-zstd 0 3g0"},
		{"replication-offset-checkpoint", "codec-zstd 0 300", "codec-zstd 0 700"},
		{"log-start-offset-checkpoint", "start-moved 0 40", "start-moved 0 440"},
		{"cleaner-offset-checkpoint", "compacted 0 160", "compacted 0 -60"},
		{"meta.properties", "node.id=1", "node.ie=1"},
		{"meta.properties", "version=1", "version=3"},
		{".kafka_cleanshutdown", `"version":0`, `"version":1`},
		{"rolled-0/leader-epoch-checkpoint", "0 0\n", "1 0\n"},
		{"rolled-0/leader-epoch-checkpoint", "0 0\n", "0 1\n"},
		{"rolled-0/leader-epoch-checkpoint", "0 0\n", "0 0"},
		{"rolled-0/partition.metadata", "version: 0", "version: 1"},
		{"__cluster_metadata-0/partition.metadata", "AAAQ", "AABQ"},
	} {
		t.Run(c.file+" "+c.to, func(t *testing.T) {
			m := golden(t)
			name := filepath.Join("/log", c.file)
			p := read(t, m, name)
			require.Contains(t, string(p), c.from)
			write(t, m, name, bytes.Replace(p, []byte(c.from), []byte(c.to), 1))
			_, fs := check(t, m, "/log")
			require.NotEmpty(t, damages(fs))
			require.Contains(t, damages(fs)[0].Path, filepath.Dir(name), "%v", fs)
		})
	}
}

func TestTopicIDUnlikeTheControllersIsDamage(t *testing.T) {
	m := golden(t)
	id := read(t, m, "/log/rolled-0/partition.metadata")
	write(t, m, "/log/append-time-0/partition.metadata", id)
	_, fs := check(t, m, "/log")
	require.Equal(t, []Finding{{Damage, "/log/append-time-0/partition.metadata", -1, "another topic id than that of append-time in the controller's log"}}, damages(fs))
}

// Strata writes the number of the partition after the topic id.
func TestDirectoryOfAnotherPartitionIsDamage(t *testing.T) {
	name := "/log/rolled-0/partition.metadata"
	for text, want := range map[string]string{
		"#strata partition 0 c2ef2c1a6ed18a38": "",
		"#strata partition 1 c2ef2c1a6ed18a38": "checksum",
		"#strata partition 1":                  "checksum",
	} {
		m := golden(t)
		sum := fmt.Sprintf("%016x", xxhash.Sum64String("#strata partition 0"))
		write(t, m, name, append(read(t, m, name), "\n"+strings.Replace(text, "c2ef2c1a6ed18a38", sum, 1)+"\n"...))
		_, fs := check(t, m, "/log")
		if want == "" {
			require.Empty(t, damages(fs))
			continue
		}
		require.Len(t, damages(fs), 1)
		require.Contains(t, damages(fs)[0].Text, want)
	}
	m := golden(t)
	write(t, m, name, append(read(t, m, name), fmt.Sprintf("\n#strata partition 1 %016x\n", xxhash.Sum64String("#strata partition 1"))...))
	_, fs := check(t, m, "/log")
	require.Equal(t, []Finding{{Damage, name, -1, "of partition 1: the directory is another partition's"}}, damages(fs))
}

func TestIncompleteLastBatchIsANoteUnlessTheLogWasClosedInOrder(t *testing.T) {
	m := golden(t)
	name := "/00000000000000000010.log"
	for _, dir := range []string{"/log/rolled-0", "/killed/rolled-0"} {
		p := read(t, m, dir+name)
		write(t, m, dir+name, append(p[:len(p):len(p)], p[:70]...))
	}
	_, fs := check(t, m, "/killed/rolled-0")
	require.Len(t, fs, 1)
	require.Equal(t, Note, fs[0].Severity)
	require.Contains(t, fs[0].Text, "70 bytes at 459 are an incomplete last batch")
	_, fs = check(t, m, "/log/rolled-0")
	require.NotEmpty(t, damages(fs))
	require.EqualValues(t, 459, damages(fs)[0].Pos)
}

func TestBytesOfTheMiddleAreDamageAndWhatFollowsIsRead(t *testing.T) {
	m := golden(t)
	name := "/log/codec-none-0/00000000000000000000.log"
	p := read(t, m, name)
	whole, _ := check(t, m, "/log/codec-none-0")
	second := int(binary.BigEndian.Uint32(p[8:])) + 12
	copy(p[second+8:], "xxxxxxxxxx") // its length too
	write(t, m, name, p)
	n, fs := check(t, m, "/log/codec-none-0")
	require.EqualValues(t, second, damages(fs)[0].Pos)
	require.Equal(t, whole.Batches-1, n.Batches)
}

func TestMissingSegmentIsDamage(t *testing.T) {
	for dir, m := range map[string]*vfs.MemFS{"/log/rolled-0": golden(t), "/data/broker-1/orders-0": strataDirectory(t)} {
		var logs []string
		for _, name := range files(t, m, dir) {
			if filepath.Ext(name) == ".log" {
				logs = append(logs, name)
			}
		}
		require.Greater(t, len(logs), 2)
		require.NoError(t, m.Remove(logs[1]))
		_, fs := check(t, m, dir)
		require.NotEmpty(t, damages(fs), dir)
	}
}

// Kafka has no list of a log's segments. A missing segment shows in an index without a segment, an
// entry beyond a segment's end, or the checkpoints.
func TestMissingPartsOfAKafkaLogAreDamage(t *testing.T) {
	const dir = "/log/rolled-0"
	remove := func(t *testing.T, m *vfs.MemFS, name string, suffixes ...string) {
		for _, suffix := range suffixes {
			require.NoError(t, m.Remove(strings.TrimSuffix(name, ".log")+suffix))
		}
	}
	for name, edit := range map[string]func(t *testing.T, m *vfs.MemFS, logs []string) (named string){
		"the first": func(t *testing.T, m *vfs.MemFS, logs []string) string {
			remove(t, m, logs[0], ".log")
			return logs[0]
		},
		"one in the middle": func(t *testing.T, m *vfs.MemFS, logs []string) string {
			remove(t, m, logs[1], ".log")
			return logs[1]
		},
		"the last": func(t *testing.T, m *vfs.MemFS, logs []string) string {
			last := logs[len(logs)-1]
			remove(t, m, last, ".log")
			return last
		},
		"the content of one in the middle": func(t *testing.T, m *vfs.MemFS, logs []string) string {
			write(t, m, logs[1], nil)
			return strings.TrimSuffix(logs[1], ".log") + ".timeindex"
		},
		"the first and its indexes, and the log begins in it": func(t *testing.T, m *vfs.MemFS, logs []string) string {
			remove(t, m, logs[0], ".log", ".index", ".timeindex")
			write(t, m, "/log/log-start-offset-checkpoint", []byte("0\n1\nrolled 0 1\n"))
			return logs[1]
		},
		"all files": func(t *testing.T, m *vfs.MemFS, _ []string) string {
			require.NoError(t, m.RemoveAll(dir))
			require.NoError(t, m.MkdirAll(dir, 0o755))
			return "/log/recovery-point-offset-checkpoint"
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := golden(t)
			// With this file, gaps would be damage on their own.
			require.NoError(t, m.Remove("/log/cleaner-offset-checkpoint"))
			var logs []string
			for _, name := range files(t, m, dir) {
				if filepath.Ext(name) == ".log" {
					logs = append(logs, name)
				}
			}
			require.Greater(t, len(logs), 2)
			named := edit(t, m, logs)
			_, fs := check(t, m, "/log")
			require.True(t, slices.ContainsFunc(damages(fs), func(f Finding) bool { return f.Path == named }), "%v", fs)
		})
	}
}

// A broker renames a segment before its indexes, and a log in tiered storage begins elsewhere.
func TestSegmentsThatAreRemovedInOrderAreNoDamage(t *testing.T) {
	m := golden(t)
	const first = "/log/rolled-0/00000000000000000000"
	require.NoError(t, m.Rename(first+".log", first+".log.deleted"))
	write(t, m, "/log/log-start-offset-checkpoint", []byte("0\n2\nrolled 0 1\nstart-moved 0 40\n"))
	require.NoError(t, m.MkdirAll("/log/"+tieredDir, 0o755))
	_, fs := check(t, m, "/log")
	require.Empty(t, damages(fs))
}

// The files of a broker that was closed in order list its logs.
func TestMissingPartitionIsDamageIfTheBrokerWasClosedInOrder(t *testing.T) {
	for dir, m := range map[string]*vfs.MemFS{"/log": golden(t), "/data/broker-1": strataDirectory(t)} {
		gone := filepath.Join(dir, "rolled-0")
		if dir != "/log" {
			gone = filepath.Join(dir, "orders-0")
		}
		require.NoError(t, m.RemoveAll(gone))
		_, fs := check(t, m, dir)
		require.Len(t, damages(fs), 1, dir)
		require.Regexp(t, filepath.Base(gone)+` was closed at \d+, and has no directory`, damages(fs)[0].Text)
		require.NoError(t, m.Remove(filepath.Join(dir, ".kafka_cleanshutdown")))
		_, fs = check(t, m, dir)
		require.Empty(t, damages(fs), "it may have been deleted since the file was written")
	}
}

func TestStrataDirectoriesAreGoodAfterCloseAndAfterAKill(t *testing.T) {
	m := strataDirectory(t)
	n, fs := check(t, m, "/data")
	require.Empty(t, damages(fs))
	require.EqualValues(t, 3, n.Partitions) // the controller's log too
	require.Greater(t, n.Records, int64(400))

	c, err := strata.Open(strata.Config{Dir: "/data", FS: m})
	require.NoError(t, err)
	defer c.Close()
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Send(context.Background(), record.String("orders", "k", "v"))
	require.NoError(t, err)
	_, fs = check(t, m.Kill(), "/data")
	require.Empty(t, damages(fs))
}

// Recovery can handle every state that a killed process leaves of a compaction, a truncation or a
// new log start.
func TestLogsThatWereKilledAtWorkAreGood(t *testing.T) {
	m := vfs.Mem()
	l, err := log.Open("/data/t-0", log.Config{FS: m, Cleanup: log.CleanupCompact, MinDirtyRatio: 0.01, SegmentBytes: 500})
	require.NoError(t, err)
	for i := range 60 {
		_, err := l.Append(t.Context(), record.String("", fmt.Sprint("key", i%7), "value"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync())
	var mu sync.Mutex // guards killed while the log is open: it also syncs in the background
	var killed []*vfs.MemFS
	stop := m.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			mu.Lock()
			defer mu.Unlock()
			killed = append(killed, m.Kill())
		}
	}})
	_, err = l.Clean(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.TruncateTo(50))
	require.NoError(t, l.TruncateFully(200))
	stop()
	require.NoError(t, l.Close())
	require.Greater(t, len(killed), 100)
	for i, m := range killed {
		_, fs := check(t, m, "/data/t-0")
		require.Empty(t, damages(fs), "call %d", i)
	}
}

func TestOtherDirectoriesAreRefused(t *testing.T) {
	m := vfs.Mem()
	require.NoError(t, m.MkdirAll("/x/broker-1", 0o755))
	_, err := Dir(context.Background(), "/x", Options{FS: m, Found: func(Finding) {}})
	require.ErrorIs(t, err, ErrNoLogs)
}

func TestFindingsOfOneFileAreBounded(t *testing.T) {
	m := golden(t)
	write(t, m, "/log/rolled-0/leader-epoch-checkpoint", []byte("0\n1\n7 0\n"))
	n, _ := check(t, m, "/log/rolled-0")
	require.Equal(t, n.Damages, int(n.Batches))
	name := "/log/codec-none-0"
	write(t, m, name+"/leader-epoch-checkpoint", []byte("0\n1\n7 0\n"))
	n, fs := check(t, m, name)
	require.Greater(t, n.Damages, findingsPerFile)
	require.Len(t, fs, findingsPerFile+1)
}

func TestCancelledContextEndsTheCheck(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Dir(ctx, "/log", Options{FS: golden(t), Found: func(Finding) {}})
	require.ErrorIs(t, err, context.Canceled)
}

// strataDirectory returns a directory of Strata in /data: a topic of two partitions with several
// segments each, and idempotent producers.
func strataDirectory(t testing.TB) *vfs.MemFS {
	t.Helper()
	ctx, m := context.Background(), vfs.Mem()
	c, err := strata.Open(strata.Config{Dir: "/data", FS: m})
	require.NoError(t, err)
	cfg := topic.Config{Partitions: 2, Properties: map[string]string{"segment.ms": "60000", "index.interval.bytes": "0"}}
	require.NoError(t, c.CreateTopic(ctx, "orders", cfg))
	began := time.Now().Add(-time.Hour)
	for turn := range 4 {
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for i := range 100 {
			r := record.String("orders", fmt.Sprint("key", i), "value").To(int32(i % 2))
			r.Timestamp = began.Add(time.Duration(turn) * 10 * time.Minute)
			_, err := p.Send(ctx, r)
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
	}
	require.NoError(t, c.Close())
	return m
}
