package segment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// recovered writes raw as a .log file, opens it with the indexes in fsys, and recovers it.
func recovered(t testing.TB, fsys vfs.FS, raw []byte, o RecoverOptions) (*Segment, Report, error) {
	writeFile(t, fsys, segmentFile(LogSuffix), raw)
	s, err := Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1000}, OpenOptions{})
	require.NoError(t, err)
	rep, err := s.Recover(o)
	if err == nil {
		requireIndexesMatch(t, s)
	}
	return s, rep, err
}

// requireIndexesMatch compares the files with those that result from appending the same batches.
func requireIndexesMatch(t testing.TB, s *Segment) {
	all, err := vfs.ReadFile(s.cfg.FS, segmentFile(LogSuffix))
	require.NoError(t, err)
	fsys := memFS(t)
	ref, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: s.cfg.IndexIntervalBytes})
	require.NoError(t, err)
	for _, b := range infoOf(all) {
		require.NoError(t, ref.Append([][]byte{all[:b.Size]}, []BatchInfo{b}))
		all = all[b.Size:]
	}
	require.NoError(t, ref.Seal())
	require.NoError(t, ref.Close())
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		require.Equal(t, readFile(t, fsys, suffix), readFile(t, s.cfg.FS, suffix), suffix)
	}
}

func batches(count, n, size int) (all []byte, ends []int) {
	for i := range count {
		all = append(all, batch(int64(i*n), n, 1000+10*int64(i), size)...)
		ends = append(ends, len(all))
	}
	return all, ends
}

func join(parts ...[]byte) (p []byte) {
	for _, part := range parts {
		p = append(p, part...)
	}
	return p
}

func flipped(p []byte, i int, bit byte) []byte {
	p = append([]byte(nil), p...)
	p[i] ^= bit
	return p
}

// Bytes that a crash can leave are truncated, anything else is damage: docs/promises.md, Checklist
// row D9 and D10.
func TestTornIsToldFromDamaged(t *testing.T) {
	t.Parallel()
	all, ends := batches(40, 2, 300)
	n := len(all)
	mid, last := ends[19], ends[38] // where the 21st and the last batch begin
	zeros := make([]byte, 100_000)
	page := n / 4096 * 4096 // inside the last batch or before it
	require.Greater(t, page, ends[30])
	older := batch(80, 2, 1, 300)
	record.SetLeaderEpoch(older, 0)
	whole := 0
	for whole < len(ends) && ends[whole] <= page {
		whole++
	}

	// A value that is a copy of a log: batches, with offsets that could come next.
	copied, copyEnds := batches(60, 2, 300)
	var nested record.Builder
	nested.SetBaseOffset(80)
	nested.SetLeaderEpoch(1)
	nested.AppendKV(1, nil, copied, nil)
	holder, err := nested.Build(record.None)
	require.NoError(t, err)
	begin := bytes.Index(holder, copied)
	require.Positive(t, begin)

	const damaged = -1
	sameBoot, otherBoot := RecoverOptions{SameBoot: true}, RecoverOptions{UnsyncedWindow: 2000}
	for _, tc := range []struct {
		name     string
		raw      []byte
		same     int // batches left after a restart in the same boot of the machine
		other    int // and in another boot
		recovery int64
	}{
		{name: "nothing is wrong", raw: all, same: 40, other: 40},
		{name: "empty", raw: nil, same: 0, other: 0},
		{name: "only zeros", raw: zeros, same: 0, other: 0},
		{name: "zero tail", raw: join(all, zeros), same: 40, other: 40},
		{name: "zero tail of a byte", raw: join(all, zeros[:1]), same: 40, other: 40},
		{name: "last batch incomplete", raw: all[:n-1], same: 39, other: 39},
		{name: "last header incomplete", raw: all[:last+30], same: 39, other: 39},
		{name: "a byte of a batch", raw: all[:last+1], same: 39, other: 39},
		{name: "write cut at a page of preallocated space", raw: join(all[:page], zeros), same: whole, other: whole},
		{name: "write cut inside a page", raw: join(all[:n-5], zeros), same: 39, other: 39},
		{name: "garbage behind", raw: join(all, []byte("garbage that no write of ours leaves, longer than a header is, much longer")), same: damaged, other: 40},
		{name: "old batch behind", raw: join(all, all[mid:ends[20]]), same: damaged, other: 40},
		{name: "batch of an older epoch behind", raw: join(all, older), same: damaged, other: 40},
		{name: "last batch damaged", raw: flipped(all, n-1, 1), same: damaged, other: 39},
		{name: "last batch damaged before a zero tail", raw: join(flipped(all, n-1, 1), zeros), same: damaged, other: 39},
		{name: "length in the middle too large", raw: flipped(all, mid+8, 0x10), same: damaged, other: damaged},
		{name: "length in the middle a little off", raw: flipped(all, mid+11, 1), same: damaged, other: damaged},
		{name: "base offset in the middle too high", raw: flipped(all, mid+3, 1), same: damaged, other: damaged},
		{name: "base offset in the middle too low", raw: flipped(all, mid+7, 0x20), same: damaged, other: damaged},
		{name: "magic in the middle", raw: flipped(all, mid+16, 1), same: damaged, other: damaged},
		{name: "zeros in the middle", raw: join(all[:mid], make([]byte, ends[21]-mid), all[ends[21]:]), same: damaged, other: damaged},
		// within the unsynced bytes
		{name: "damage near the end", raw: flipped(all, ends[37]-1, 1), same: 40, other: 37},
		{name: "damage in the middle", raw: flipped(all, ends[20]-1, 1), same: 40, other: damaged},
		{name: "last batch holds batches, and is incomplete", raw: join(all, holder[:len(holder)-5]), same: 40, other: 40},
		{name: "last batch holds batches, and is cut early", raw: join(all, holder[:begin+copyEnds[41]]), same: 40, other: 40},
		{name: "length too large of a batch that holds batches", raw: join(all, flipped(holder, 8, 0x10), batch(81, 1, 1, 300)), same: damaged, other: damaged},
		{name: "incomplete below the recovery point", raw: all[:n-1], same: damaged, other: damaged, recovery: 80},
		{name: "zeros below the recovery point", raw: join(all[:last], zeros), same: damaged, other: damaged, recovery: 80},
		{name: "page cut below the recovery point", raw: join(all[:page], zeros), same: damaged, other: damaged, recovery: 80},
	} {
		for name, o := range map[string]RecoverOptions{"same boot": sameBoot, "other boot": otherBoot} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				fsys := memFS(t)
				o.RecoveryPoint = tc.recovery
				want := tc.same
				if !o.SameBoot {
					want = tc.other
				}
				s, rep, err := recovered(t, fsys, tc.raw, o)
				if want == damaged {
					var damage *CorruptError
					require.ErrorAs(t, err, &damage)
					require.ErrorIs(t, err, ErrCorrupt)
					require.Equal(t, segmentFile(LogSuffix), damage.Path)
					require.Contains(t, append(ends, 0), int(damage.Pos), "the place of the damage")
					require.Equal(t, tc.raw, readFile(t, fsys, LogSuffix), "nothing is changed")
					require.NoError(t, s.Close())
					return
				}
				require.NoError(t, err)
				end := append([]int{0}, ends...)[want]
				require.EqualValues(t, end, s.Size())
				require.EqualValues(t, 2*want, s.NextOffset())
				require.EqualValues(t, end, rep.CutAt)
				require.Equal(t, string(tc.raw[:end]), string(readFile(t, fsys, LogSuffix)))
				if tc.name != "damage in the middle" && tc.name != "damage near the end" || !o.SameBoot {
					got, err := readAll(s, 0, 1000)
					require.NoError(t, err)
					require.Equal(t, string(tc.raw[:end]), string(got))
				} else {
					_, err := readAll(s, 0, 1000)
					require.ErrorIs(t, err, ErrCorrupt, "the read that meets it")
				}
				// A second recovery has nothing to do.
				require.NoError(t, s.Close())
				s, err = Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1000}, OpenOptions{})
				require.NoError(t, err)
				again, err := s.Recover(o)
				require.NoError(t, err)
				require.Zero(t, again.CutBytes+again.ZeroBytes)
				require.False(t, again.RebuiltIndex)
				require.EqualValues(t, end, s.Size())
				require.NoError(t, s.Close())
			})
		}
	}
}

func TestReportSaysWhatWasCut(t *testing.T) {
	t.Parallel()
	all, ends := batches(10, 2, 300)
	s, rep, err := recovered(t, memFS(t), all[:ends[9]-7], RecoverOptions{})
	require.NoError(t, err)
	require.Equal(t, Report{Batches: 9, ScannedBytes: int64(ends[8]), CutBytes: int64(ends[9] - 7 - ends[8]), CutAt: int64(ends[8]), RebuiltIndex: true}, rep)
	require.NoError(t, s.Close())
	s, rep, err = recovered(t, memFS(t), join(all, make([]byte, 5000)), RecoverOptions{SameBoot: true})
	require.NoError(t, err)
	require.EqualValues(t, 5000, rep.ZeroBytes)
	require.Zero(t, rep.CutBytes)
	require.NoError(t, s.Close())
}

func TestRecoveryOfReadOnlySegmentsChangesNothing(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	all, ends := batches(10, 2, 300)
	raw := all[:len(all)-10]
	writeFile(t, fsys, segmentFile(LogSuffix), raw)
	s, err := Open(testDir, 0, Config{FS: fsys, ReadOnly: true}, OpenOptions{})
	require.NoError(t, err)
	_, err = s.Recover(RecoverOptions{SameBoot: true})
	require.NoError(t, err)
	got, err := readAll(s, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, all[:ends[8]], got)
	require.ErrorIs(t, appendTo(s, batch(18, 1, 1, 1)), ErrSealed)
	require.NoError(t, s.Close())
	require.Equal(t, raw, readFile(t, fsys, LogSuffix))
	left, err := fsys.ReadDir(testDir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestWhatRecoveryFoundIsSyncedByTheNextSync(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, fsys.SyncDir(testDir))
	all := fill(t, s, 3, 2, 100)
	fsys = fsys.Kill()
	s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{})
	require.NoError(t, err)
	_, err = s.Recover(RecoverOptions{SameBoot: true})
	require.NoError(t, err)
	require.NoError(t, s.Sync())
	after := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost})
	require.Equal(t, all, readFile(t, after, LogSuffix))
	require.NoError(t, s.Close())
}

// A failed read does not show where the batches end: recovery fails too, or did not need the read.
func TestFailedReadInRecoveryIsNoEndOfTheFile(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	all := fill(t, s, 200, 1, 300)
	failures := 0
	for _, o := range []RecoverOptions{{}, {SameBoot: true}, {RecoveryPoint: 100}, {UnsyncedWindow: 1 << 20}} {
		for n := 0; ; n++ {
			killed := fsys.Kill()
			heal := killed.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "*.log", After: n, Err: syscall.EIO})
			s, err := Open(testDir, 0, Config{FS: killed}, OpenOptions{})
			require.NoError(t, err)
			_, err = s.Recover(o)
			reads := killed.Count(vfs.OpRead)
			heal()
			require.NoError(t, s.Close())
			require.True(t, bytes.HasPrefix(readFile(t, killed, LogSuffix), all), "read %d of %+v", n, o)
			if reads <= int64(n) {
				require.NoError(t, err)
				break
			}
			if err != nil {
				require.ErrorIs(t, err, syscall.EIO)
				failures++
			}
		}
	}
	require.Greater(t, failures, 4)
}

// Recovery reads only the headers behind the last index entry.
func TestKilledSegmentIsRecoveredFromItsLastIndexEntry(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1000})
	require.NoError(t, err)
	all := fill(t, s, 20_000, 1, 300)
	fsys = fsys.Kill()
	var read int64
	fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpRead {
			read += e.Len
		}
	}})
	s, err = Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1000}, OpenOptions{})
	require.NoError(t, err)
	rep, err := s.Recover(RecoverOptions{SameBoot: true})
	require.NoError(t, err)
	require.EqualValues(t, len(all), s.Size())
	require.Less(t, read, int64(len(all)/4))
	require.Less(t, rep.ScannedBytes, int64(flushIndexEntries*1800))
	require.False(t, rep.RebuiltIndex)
	requireIndexesMatch(t, s)
	require.NoError(t, s.Close())
}

func TestBatchesAreShownToTheCallerOfRecover(t *testing.T) {
	t.Parallel()
	all, _ := batches(10, 2, 30)
	var seen []int64
	s, _, err := recovered(t, memFS(t), all, RecoverOptions{Batch: func(b *record.Batch) error {
		seen = append(seen, b.BaseOffset)
		for range b.All() {
		}
		return nil
	}})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, seen)
	require.NoError(t, s.Close())
	refused := errors.New("refused")
	s, _, err = recovered(t, memFS(t), all, RecoverOptions{Batch: func(*record.Batch) error { return refused }})
	require.ErrorIs(t, err, refused)
	require.NoError(t, s.Close())
}

// Checklist row D3, D5, D7: recovery fails at every call, and once the disk works again it has the
// same result as without the failure.
func TestRecoveryThatFailsCanBeRepeated(t *testing.T) {
	t.Parallel()
	all, ends := batches(30, 2, 300)
	for _, op := range []vfs.Op{vfs.OpRead, vfs.OpWrite, vfs.OpTruncate, vfs.OpOpen} {
		for after := 0; ; after++ {
			fsys := memFS(t)
			writeFile(t, fsys, segmentFile(LogSuffix), all[:len(all)-3])
			remove := fsys.Inject(vfs.Fault{Ops: op, After: after, Err: syscall.EIO})
			calls := fsys.Count(op)
			s, err := Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1000}, OpenOptions{})
			require.NoError(t, err)
			if _, err = s.Recover(RecoverOptions{}); err != nil {
				require.ErrorIs(t, err, syscall.EIO)
			}
			if err == nil {
				require.EqualValues(t, ends[28], s.Size())
			}
			hit := fsys.Count(op)-calls > int64(after)
			remove()
			_ = s.Close()
			s, err = Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1000}, OpenOptions{})
			require.NoError(t, err)
			_, err = s.Recover(RecoverOptions{})
			require.NoError(t, err)
			require.EqualValues(t, ends[28], s.Size())
			requireIndexesMatch(t, s)
			require.NoError(t, s.Close())
			if !hit {
				break
			}
		}
	}
}

// A power cut after each call that changes something: all synced records are there, in order.
func TestPowerCutAtEveryCallKeepsWhatWasSynced(t *testing.T) {
	t.Parallel()
	work := func(fsys *vfs.MemFS, synced *int) error {
		s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 500})
		if err != nil {
			return err
		}
		if err := fsys.SyncDir(testDir); err != nil {
			return err
		}
		for i := range 30 {
			if i%8 == 0 {
				if err := s.Preallocate(4000); err != nil {
					return err
				}
			}
			if err := appendTo(s, batch(int64(i), 1, 1000+int64(i), 200)); err != nil {
				return err
			}
			if i%3 == 0 {
				if err := s.Sync(); err != nil {
					return err
				}
				*synced = i + 1
			}
		}
		if err := s.Seal(); err != nil {
			return err
		}
		*synced = 30
		return s.Close()
	}
	states := 0
	for k := 0; ; k++ {
		fsys, synced, n := memFS(t), 0, 0
		var images []*vfs.MemFS
		var kept []int
		fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if n++; n == k+1 {
				for seed := range uint64(6) {
					images, kept = append(images, fsys.Crash(seed)), append(kept, synced)
				}
			}
		}})
		require.NoError(t, work(fsys, &synced))
		if len(images) == 0 {
			break
		}
		for i, image := range images {
			states++
			if _, err := image.Stat(segmentFile(LogSuffix)); errors.Is(err, os.ErrNotExist) {
				require.Zero(t, kept[i])
				continue
			}
			requireSynced(t, image, kept[i], fmt.Sprintf("call %d, seed %d", k, i))
		}
	}
	require.Greater(t, states, 300)
}

func requireSynced(t *testing.T, image *vfs.MemFS, kept int, where string) {
	s, err := Open(testDir, 0, Config{FS: image, IndexIntervalBytes: 500}, OpenOptions{})
	require.NoError(t, err)
	_, err = s.Recover(RecoverOptions{RecoveryPoint: int64(kept)})
	require.NoError(t, err, where)
	require.GreaterOrEqual(t, s.NextOffset(), int64(kept), where)
	got, err := readAll(s, 0, 1000)
	require.NoError(t, err, where)
	for i, b := range infoOf(got) {
		require.EqualValues(t, i, b.BaseOffset, where)
	}
	requireIndexesMatch(t, s)
	require.NoError(t, s.Close())
}
