package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// fixture is a log of several segments on a file system in memory, with its ids and bytes.
type fixture struct {
	fsys  *vfs.MemFS
	cfg   log.Config
	ids   []int64
	bytes []byte // all batches
}

const epochOfFixture = 3 // so that leader epochs are no zeros

// newFixture appends n records one by one. closed is whether the log is closed properly or killed.
func newFixture(t testing.TB, n int64, closed bool) *fixture {
	x := &fixture{fsys: vfs.Mem(), cfg: exploreConfig(log.SyncOnAck)}
	x.cfg.RetentionBytes = 0
	cfg := x.cfg
	cfg.FS = x.fsys
	l, err := log.Open(exploreDir, cfg)
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(epochOfFixture))
	for id := range n {
		_, err := l.Append(t.Context(), record.Record{Value: valueOf(id), Timestamp: fixtureTime(id)})
		require.NoError(t, err)
		x.ids = append(x.ids, id)
	}
	x.bytes, err = allBytes(l)
	require.NoError(t, err)
	if !closed {
		x.fsys = x.fsys.Kill()
	}
	require.NoError(t, l.Close())
	return x
}

// fixtureTime is the timestamp of the record with an id.
func fixtureTime(id int64) time.Time { return time.UnixMilli(1_700_000_000_000 + id*1000) }

// allBytes returns all batches as Read returns them.
func allBytes(l *log.Log) ([]byte, error) {
	var all []byte
	for next := l.StartOffset(); next < l.EndOffset(); {
		before := len(all)
		var err error
		if all, err = l.Read(all, next, 3000); err != nil {
			return all, err
		}
		for rest := all[before:]; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			if err != nil {
				return all, fmt.Errorf("served a bad batch: %w", err)
			}
			next, rest = b.NextOffset(), rest[n:]
		}
		if len(all) == before {
			return all, fmt.Errorf("nothing at %d", next)
		}
	}
	return all, nil
}

// open opens a log on fsys with the fixture's configuration.
func (x *fixture) open(fsys vfs.FS) (*log.Log, error) {
	cfg := x.cfg
	cfg.FS = fsys
	return log.Open(exploreDir, cfg)
}

// verdict opens and reads a damaged log: detected means a typed error. Otherwise all records have
// to be unchanged.
func (x *fixture) verdict(fsys *vfs.MemFS) (detected bool, err error) {
	l, err := x.open(fsys)
	if err != nil {
		return true, corrupt(err)
	}
	got, err := allBytes(l)
	closeErr := l.Close()
	switch {
	case err != nil:
		return true, corrupt(err)
	case closeErr != nil:
		return false, closeErr
	case len(got) < len(x.bytes):
		return false, fmt.Errorf("silently cut from %d to %d bytes", len(x.bytes), len(got))
	case string(got) != string(x.bytes):
		return false, errors.New("wrong bytes served")
	}
	return false, nil
}

// corrupt returns nil for an error that reports damage with the right type and with the file's
// path.
func corrupt(err error) error {
	c, ok := errors.AsType[*log.CorruptError](err)
	switch {
	case errors.Is(err, log.ErrMissingSegment), errors.Is(err, log.ErrNewerFormat):
		return nil
	case !ok || !errors.Is(err, log.ErrCorrupt):
		return fmt.Errorf("damage reported by an untyped error: %w", err)
	case c.Path == "":
		return fmt.Errorf("error without a path: %w", err)
	}
	return nil
}

// files returns the names in the log's directory that end in suffix.
func files(t testing.TB, fsys vfs.FS, suffix string) (names []string) {
	entries, err := fsys.ReadDir(exploreDir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// edit changes the content of a file.
func edit(t testing.TB, fsys vfs.FS, name string, change func([]byte) []byte) {
	path := filepath.Join(exploreDir, name)
	b, err := vfs.ReadFile(fsys, path)
	require.NoError(t, err)
	require.NoError(t, vfs.WriteFile(fsys, path, change(b)))
}

func flip(bit int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[bit/8] ^= 1 << (bit % 8)
		return b
	}
}

// TestEveryBitFlipIsDetected flips single bits of the batches of a log that was closed: a sample
// by default, every bit of a larger log under STRATA_EXPLORE.
func TestEveryBitFlipIsDetected(t *testing.T) {
	records := int64(30)
	if os.Getenv(exploreEnv) != "" {
		records = 150
	}
	x := newFixture(t, records, true)
	rnd := rand.New(rand.NewPCG(uint64(envInt(t, seedEnv, 1)), 8))
	stride := 0
	names := files(t, x.fsys, ".log")
	require.Greater(t, len(names), 2)
	sizes, total := make([]int, len(names)), 0
	for i, name := range names {
		fi, err := x.fsys.Stat(filepath.Join(exploreDir, name))
		require.NoError(t, err)
		sizes[i] = int(fi.Size()) * 8
		total += sizes[i]
	}
	if os.Getenv(exploreEnv) == "" {
		stride = total / log.Sampled(5000, 500)
	}
	flips := 0
	for i, name := range names {
		for bit := 0; bit < sizes[i]; bit += 1 + rnd.IntN(2*stride+1) {
			fsys := x.fsys.Kill()
			edit(t, fsys, name, flip(bit))
			detected, err := x.verdict(fsys)
			require.NoError(t, err, "%s of %d, bit %d of byte %d", name, len(names), bit%8, bit/8)
			require.True(t, detected, "%s, bit %d of byte %d was flipped and all is as it was?", name, bit%8, bit/8)
			flips++
		}
	}
	t.Logf("%d flips in %d bits of batches, all detected", flips, total)
}

// TestBitFlipsOutsideOfBatchesDoNoHarm flips bits of indexes, checkpoints and snapshots: the log
// is unchanged, or reports the damage.
func TestBitFlipsOutsideOfBatchesDoNoHarm(t *testing.T) {
	x := newFixture(t, 30, true)
	rnd := rand.New(rand.NewPCG(uint64(envInt(t, seedEnv, 1)), 9))
	flips, detected := 0, 0
	for _, name := range files(t, x.fsys, "") {
		if strings.HasSuffix(name, ".log") {
			continue
		}
		fi, err := x.fsys.Stat(filepath.Join(exploreDir, name))
		require.NoError(t, err)
		bits := int(fi.Size()) * 8
		for bit := 0; bit < bits; bit += 1 + rnd.IntN(max(bits/log.Sampled(40, 8), 1)) {
			fsys := x.fsys.Kill()
			edit(t, fsys, name, flip(bit))
			d, err := x.verdict(fsys)
			require.NoError(t, err, "%s, bit %d of byte %d", name, bit%8, bit/8)
			if d {
				detected++
			} else {
				x.lookUp(t, fsys, fmt.Sprintf("%s, bit %d of byte %d", name, bit%8, bit/8))
			}
			flips++
		}
	}
	t.Logf("%d flips, %d of them reported as damage, the others without effect", flips, detected)
}

// lookUp checks look-ups by offset and time.
func (x *fixture) lookUp(t testing.TB, fsys *vfs.MemFS, what string) {
	l, err := x.open(fsys)
	require.NoError(t, err, what)
	for id := range int64(len(x.ids)) {
		offset, err := l.OffsetAt(fixtureTime(id))
		if err != nil {
			require.NoError(t, corrupt(err), what)
		} else {
			require.Equal(t, id, offset, what)
		}
		b, err := l.Read(nil, id, 1)
		require.NoError(t, err, what)
		parsed, _, err := record.Parse(b)
		require.NoError(t, err, what)
		require.Equal(t, id, parsed.BaseOffset, what)
	}
	require.NoError(t, l.Close())
}

// TestBitFlipsUnderARunningLogAreDetected makes the disk return single wrong bits while the log is
// open.
func TestBitFlipsUnderARunningLogAreDetected(t *testing.T) {
	x := newFixture(t, 30, true)
	rnd := rand.New(rand.NewPCG(uint64(envInt(t, seedEnv, 1)), 10))
	for _, name := range files(t, x.fsys, ".log") {
		fi, err := x.fsys.Stat(filepath.Join(exploreDir, name))
		require.NoError(t, err)
		for range 60 {
			bit := rnd.Int64N(fi.Size() * 8)
			fsys := x.fsys.Kill()
			l, err := x.open(fsys)
			require.NoError(t, err)
			remove := fsys.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: name, Flip: true, Bit: bit, Times: vfs.Always})
			got, err := allBytes(l)
			if err != nil {
				require.NoError(t, corrupt(err), "%s bit %d", name, bit)
			} else {
				require.Equal(t, x.bytes, got, "%s bit %d", name, bit)
			}
			remove()
			require.NoError(t, l.Close())
		}
	}
}

// tails are bytes that may be behind the last batch of a log.
func tails(x *fixture) map[string][]byte {
	last := x.bytes[len(x.bytes)-lastBatchSize(x.bytes):]
	stale := slices.Clone(x.bytes[:firstBatchSize(x.bytes)])
	next := slices.Clone(last)
	record.SetBaseOffset(next, int64(len(x.ids)))
	ahead := slices.Clone(last)
	record.SetBaseOffset(ahead, int64(len(x.ids))+1_000_000)
	old := slices.Clone(next)
	record.SetLeaderEpoch(old, epochOfFixture-1)
	garbage := make([]byte, 777)
	for i := range garbage {
		garbage[i] = byte(i*i + 13)
	}
	return map[string][]byte{
		"zeros": make([]byte, 5000), "one zero": {0}, "garbage": garbage, "header only": next[:61], "torn header": next[:20],
		"torn batch": next[:len(next)-1], "stale batch": stale, "last batch again": slices.Clone(last),
		"batch of an older epoch": old, "torn, then zeros": append(slices.Clone(next[:70]), make([]byte, 4000)...),
	}
}

func firstBatchSize(b []byte) int {
	h, _ := record.ParseHeader(b)
	return h.Size()
}

func lastBatchSize(b []byte) (size int) {
	for len(b) > 0 {
		size = firstBatchSize(b)
		b = b[size:]
	}
	return size
}

// TestTailsAreCut puts bytes behind the last batch of a log that was not closed. After a power cut
// all of them are cut off. After a kill only an incomplete batch and zeros can be there, and other
// bytes are damage.
func TestTailsAreCut(t *testing.T) {
	x := newFixture(t, 20, false)
	names := files(t, x.fsys, ".log")
	active := names[len(names)-1]
	incomplete := []string{"zeros", "one zero", "header only", "torn header", "torn batch", "torn, then zeros"}
	for name, tail := range tails(x) {
		for _, power := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, power cut %v", name, power), func(t *testing.T) {
				fsys := x.fsys.Kill()
				if power {
					fsys = x.fsys.CrashWith(variants[2].CrashOptions)
				}
				edit(t, fsys, active, func(b []byte) []byte { return append(trim(b), tail...) })
				l, err := x.open(fsys)
				if err != nil {
					require.False(t, power, "%v", err)
					require.NoError(t, corrupt(err))
					require.NotContains(t, incomplete, name)
					return
				}
				got, err := allBytes(l)
				// taken for the last batch, but never served
				if name == "batch of an older epoch" && err != nil && !power {
					require.NoError(t, corrupt(err))
					require.True(t, bytes.HasPrefix(x.bytes, got))
					require.NoError(t, l.Close())
					return
				}
				require.NoError(t, err)
				require.True(t, power || slices.Contains(incomplete, name), "no kill of a process leaves that")
				require.Equal(t, x.bytes, got, "exactly what had been appended")
				require.EqualValues(t, len(x.ids), l.EndOffset())
				_, err = appendID(l, int64(len(x.ids)))
				require.NoError(t, err)
				require.NoError(t, l.Close())
				f := reread(t, fsys)
				require.Equal(t, append(slices.Clone(x.ids), int64(len(x.ids))), f.ids)
			})
		}
	}
}

// trim cuts off the preallocated space behind the last batch.
func trim(b []byte) []byte {
	size := 0
	for size < len(b) {
		h, err := record.ParseHeader(b[size:])
		if err != nil {
			break
		}
		size += h.Size()
	}
	return b[:size:size]
}

// TestDamageInTheMiddleIsNeverCutSilently flips bits outside of the last batch, where every record
// had been acknowledged.
func TestDamageInTheMiddleIsNeverCutSilently(t *testing.T) {
	rnd := rand.New(rand.NewPCG(uint64(envInt(t, seedEnv, 1)), 11))
	for _, closed := range []bool{true, false} {
		x := newFixture(t, 30, closed)
		names := files(t, x.fsys, ".log")
		for _, power := range []bool{false, true} {
			if power && !closed {
				continue // TestDamageAboveTheRecoveryPoint covers records above the recovery point
			}
			for i := range 150 {
				fsys := x.fsys.Kill()
				if power {
					fsys = x.fsys.Crash(uint64(i))
				}
				name, last := names[i%len(names)], 0
				edit(t, fsys, name, func(b []byte) []byte {
					b = trim(b)
					if i%len(names) == len(names)-1 {
						last = lastBatchSize(b)
					}
					if len(b) == last {
						return b
					}
					return flip(rnd.IntN((len(b) - last) * 8))(b)
				})
				detected, err := x.verdict(fsys)
				require.NoError(t, err, "closed %v, power cut %v, %s", closed, power, name)
				if i%len(names) < len(names)-1 {
					require.True(t, detected, "closed %v, power cut %v, %s", closed, power, name)
				}
			}
		}
	}
}

// TestStrangeDirectories opens logs with missing, empty, swapped or otherwise wrong files.
func TestStrangeDirectories(t *testing.T) {
	x := newFixture(t, 40, true)
	logs := files(t, x.fsys, ".log")
	require.Greater(t, len(logs), 3)
	at := func(name string) string { return filepath.Join(exploreDir, name) }
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, m *vfs.MemFS)
		damaged bool
	}{
		{"segment missing in the middle", func(t *testing.T, m *vfs.MemFS) { require.NoError(t, m.Remove(at(logs[1]))) }, true},
		{"last segment missing", func(t *testing.T, m *vfs.MemFS) { require.NoError(t, m.Remove(at(logs[len(logs)-1]))) }, true},
		{"first segment missing", func(t *testing.T, m *vfs.MemFS) { require.NoError(t, m.Remove(at(logs[0]))) }, true},
		{"segment empty", func(t *testing.T, m *vfs.MemFS) { edit(t, m, logs[1], func([]byte) []byte { return nil }) }, true},
		{"last segment empty", func(t *testing.T, m *vfs.MemFS) { edit(t, m, logs[len(logs)-1], func([]byte) []byte { return nil }) }, true},
		{"segments swapped", func(t *testing.T, m *vfs.MemFS) {
			require.NoError(t, m.Rename(at(logs[1]), at("x")))
			require.NoError(t, m.Rename(at(logs[2]), at(logs[1])))
			require.NoError(t, m.Rename(at("x"), at(logs[2])))
		}, true},
		{"segment cut at a batch", func(t *testing.T, m *vfs.MemFS) {
			edit(t, m, logs[1], func(b []byte) []byte { return b[:len(b)-lastBatchSize(b)] })
		}, true},
		{"no indexes", func(t *testing.T, m *vfs.MemFS) {
			for _, name := range append(files(t, m, ".index"), files(t, m, ".timeindex")...) {
				require.NoError(t, m.Remove(at(name)))
			}
		}, false},
		{"empty indexes", func(t *testing.T, m *vfs.MemFS) {
			for _, name := range append(files(t, m, ".index"), files(t, m, ".timeindex")...) {
				edit(t, m, name, func([]byte) []byte { return nil })
			}
		}, false},
		{"indexes of other segments", func(t *testing.T, m *vfs.MemFS) {
			for _, suffix := range []string{".index", ".timeindex"} {
				names := files(t, m, suffix)
				for i := 1; i < len(names); i++ {
					b, err := vfs.ReadFile(x.fsys, at(names[i-1]))
					require.NoError(t, err)
					edit(t, m, names[i], func([]byte) []byte { return b })
				}
			}
		}, false},
		{"foreign files", func(t *testing.T, m *vfs.MemFS) {
			for _, name := range []string{"README", "1.log", "00000000000000000007.log.bak", "lost+found", "00000000000000000007.snapshot.x"} {
				require.NoError(t, vfs.WriteFile(m, at(name), []byte("foreign")))
			}
			require.NoError(t, m.MkdirAll(at("some-directory"), 0o755))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := x.fsys.Kill()
			c.change(t, m)
			detected, err := x.verdict(m)
			require.NoError(t, err)
			require.Equal(t, c.damaged, detected)
			if c.name == "foreign files" {
				for _, name := range []string{"README", "1.log", "some-directory"} {
					_, err := m.Stat(at(name))
					require.NotErrorIs(t, err, fs.ErrNotExist, "%s has been removed", name)
				}
			}
			if !c.damaged {
				x.lookUp(t, m, c.name)
			}
		})
	}
}

// TestFlippedBaseOffsetOfTheLastBatchIsDamage: no CRC covers the base offset, and no
// batch follows that could contradict it.
func TestFlippedBaseOffsetOfTheLastBatchIsDamage(t *testing.T) {
	for _, n := range []int64{1, 20} {
		x := newFixture(t, n, false)
		names := files(t, x.fsys, ".log")
		for bit := range 64 {
			fsys := x.fsys.Kill()
			edit(t, fsys, names[len(names)-1], func(b []byte) []byte {
				b = trim(b)
				return flip((len(b)-lastBatchSize(b))*8 + bit)(b)
			})
			cfg := x.cfg
			cfg.FS = fsys
			_, err := log.PlanRecovery(exploreDir, cfg)
			require.ErrorIs(t, err, log.ErrCorrupt, "bit %d of the last of %d batches", bit, n)
			detected, err := x.verdict(fsys)
			require.NoError(t, err)
			require.True(t, detected)
		}
	}
}
