package segment

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestReadReturnsWholeBatchesFromTheOneThatHoldsTheOffset(t *testing.T) {
	t.Parallel()
	s, err := Create(testDir, 0, Config{FS: memFS(t)})
	require.NoError(t, err)
	closed(t, s)
	all := fill(t, s, 100, 3, 50)
	one := len(all) / 100

	for _, offset := range []int64{0, 1, 2, 3, 150, 151, 299} {
		from := int(offset/3) * one
		p, err := s.ReadAt([]byte("head"), offset, 1, -1)
		require.NoError(t, err)
		require.Equal(t, "head"+string(all[from:from+one]), string(p), "at least one")
		p, err = s.ReadAt(nil, offset, 5*one+5, -1)
		require.NoError(t, err)
		require.Equal(t, all[from:min(from+5*one, len(all))], p, "no part of a sixth")
	}
	p, err := s.ReadAt(nil, 0, math.MaxInt32, int64(7*one+10))
	require.NoError(t, err)
	require.Equal(t, all[:7*one], p, "up to a file position")
	p, err = s.ReadAt(nil, 0, 1, int64(one-1))
	require.NoError(t, err)
	require.Empty(t, p)
	p, err = s.ReadAt([]byte("x"), 300, 100, -1)
	require.NoError(t, err)
	require.Equal(t, "x", string(p), "nothing at the end")
	p, err = s.ReadRange(nil, int64(one), 3*one)
	require.NoError(t, err)
	require.Equal(t, all[one:4*one], p)
	pos, err := s.Locate(200)
	require.NoError(t, err)
	require.EqualValues(t, 66*one, pos)
	pos, err = s.Lookup(200)
	require.NoError(t, err)
	require.LessOrEqual(t, pos, int64(66*one))
	require.Greater(t, pos, int64(66*one-DefaultIndexIntervalBytes-2*one))
	for size := one; size < 3*one; size += 37 {
		got, err := readAll(s, 0, size)
		require.NoError(t, err)
		require.Equal(t, all, got)
	}
}

func TestReadingThroughReadsNoByteTwice(t *testing.T) {
	t.Parallel()
	for _, size := range []int{200, 70_000, 150_000, 290_000, 600_000, 2_000_000} {
		m := memFS(t)
		w, err := Create(testDir, 0, Config{FS: m})
		require.NoError(t, err)
		all := fill(t, w, 6_000_000/size, 1, size)
		require.NoError(t, w.Close())

		fsys := vfs.Faulty(m)
		s, err := Open(testDir, 0, Config{FS: fsys}, OpenOptions{Clean: true, NextOffset: w.NextOffset(), Size: int64(len(all))})
		require.NoError(t, err)
		closed(t, s)
		var read int64
		fsys.Observe(vfs.Observer{After: func(e vfs.Event, _ error) {
			if e.Op == vfs.OpRead {
				read += e.Len
			}
		}})
		got, err := readAll(s, 0, 1<<20)
		require.NoError(t, err)
		require.Equal(t, all, got)
		require.Less(t, read, int64(len(all)+len(all)/50), "%d bytes a batch", size)
	}
}

func TestReadSkipsGapsThatCompactionLeft(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	a, b := batch(10, 2, 1, 20), batch(500, 1, 2, 20)
	require.NoError(t, appendTo(s, append(a[:len(a):len(a)], b...)))
	require.NoError(t, s.Seal())
	require.NoError(t, s.Close())
	// The next segment begins at 1000: there is no record at 501 and above.
	s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{Clean: true, NextOffset: 1000, Size: int64(len(a) + len(b))})
	require.NoError(t, err)
	closed(t, s)
	for offset, want := range map[int64]string{0: string(a) + string(b), 11: string(a) + string(b), 12: string(b), 500: string(b), 501: "", 999: "", 1000: ""} {
		p, err := s.ReadAt(nil, offset, 1<<20, -1)
		require.NoError(t, err)
		require.Equal(t, want, string(p), "offset %d", offset)
	}
}

func TestFailedReadsAreErrorsOfThatReadOnly(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	all, failed := fill(t, s, 50, 2, 100), 0
	for _, f := range []vfs.Fault{{Err: syscall.EIO}, {Err: syscall.EIO, Keep: 70}, {Err: io.EOF, Keep: -1}, {Keep: 30}} {
		for after := range 3 {
			f.Ops, f.Pattern, f.After = vfs.OpRead, "*.log", after
			remove := fsys.Inject(f)
			s.Trim() // no hints: a lookup reads, too
			p, err := s.ReadAt([]byte("x"), 60, 300, -1)
			if err != nil {
				require.Equal(t, "x", string(p))
				failed++
			} else { // fewer reads than that, or a read at another position instead
				require.Equal(t, "x"+string(all[30*len(all)/50:31*len(all)/50]), string(p))
			}
			remove()
			p, err = readAll(s, 0, 1000)
			require.NoError(t, err)
			require.Equal(t, all, p)
		}
	}
	require.GreaterOrEqual(t, failed, 6)
}

// Every bit that a reader can get is flipped: each flip is an error, or makes no difference. Base
// offsets and lengths are not under the CRC; neighbouring batches show the damage. Leader epochs
// are not either; the log's epochs show the damage.
func TestEveryBitFlipInASealedSegmentIsDetected(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]OpenOptions{"end known": {Clean: true, NextOffset: 60}, "recovered": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 400})
			require.NoError(t, err)
			all := fill(t, s, 20, 3, 30)
			require.NoError(t, s.Seal())
			require.NoError(t, s.Close())
			o.Size = int64(len(all))
			epochs := func(int64) int32 { return 1 }
			r := rand.New(rand.NewPCG(1, 1))
			step := 1
			if testing.Short() {
				step = 29
			}
			for bit := 0; bit < 8*len(all); bit += step {
				if !o.Clean && bit >= 19*8*len(all)/20 && bit%(8*len(all)/20) < 64 {
					// the end of a segment that was not closed is unknown: the last base offset
					// may be anything
					continue
				}
				remove := fsys.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "*.log", Times: vfs.Always, Flip: true, Bit: int64(bit)})
				requireNoWrongBytes(t, fsys, Config{IndexIntervalBytes: 400, EpochAt: epochs}, o, all, bit, r.Int64N(60))
				remove()
			}
		})
	}
}

func requireNoWrongBytes(t *testing.T, fsys vfs.FS, cfg Config, o OpenOptions, all []byte, bit int, offset int64) {
	cfg.FS, cfg.ReadOnly = fsys, true
	s, err := Open(testDir, 0, cfg, o)
	if err == nil && !o.Clean {
		_, err = s.Recover(RecoverOptions{SameBoot: true, RecoveryPoint: 60})
	}
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt)
		return
	}
	first, firstErr := s.ReadAt(nil, offset, 300, -1)
	got, err := readAll(s, 0, 1000)
	var damage *CorruptError
	require.ErrorAs(t, err, &damage, "bit %d: byte %d of the batch", bit, bit/8%(len(all)/20))
	if firstErr == nil {
		pos := int(offset/3) * len(all) / 20
		require.NotEmpty(t, first, "bit %d: nothing at offset %d", bit, offset)
		require.Equal(t, all[pos:pos+len(first)], first, "bit %d, offset %d", bit, offset)
	} else {
		require.ErrorAs(t, firstErr, &damage)
	}
	require.Equal(t, string(all[:len(got)]), string(got))
	require.NoError(t, s.Close())
}

func TestVerifiedBytesAreNotCheckedAgain(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	all := fill(t, s, 10, 3, 30)
	damage := func(i int) {
		f, err := fsys.OpenFile(segmentFile(LogSuffix), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{all[i] ^ 1}, int64(i))
		require.NoError(t, errors.Join(err, f.Close()))
	}
	damage(len(all) - 1) // bytes that this process appended are trusted
	_, err = readAll(s, 0, 200)
	require.NoError(t, err)
	require.NoError(t, s.Seal())
	require.NoError(t, s.Close())
	s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{Clean: true, NextOffset: 30, Size: int64(len(all))})
	require.NoError(t, err)
	closed(t, s)
	_, err = readAll(s, 0, 200)
	require.ErrorIs(t, err, ErrCorrupt)
	p, err := s.ReadAt(nil, 3, 1, -1)
	require.NoError(t, err)
	damage(len(p) + 100) // of the batch that was read, and is therefore verified
	_, err = s.ReadAt(nil, 3, 1, -1)
	require.NoError(t, err)
}

func TestReadersRunBesideTheWriterAndTruncation(t *testing.T) {
	t.Parallel()
	s, err := Create(testDir, 0, Config{FS: memFS(t), IndexIntervalBytes: 300})
	require.NoError(t, err)
	closed(t, s)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, 2))
			for offset := int64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				p, err := s.ReadAt(nil, offset, 1000, -1)
				if err != nil {
					t.Errorf("offset %d: %v", offset, err)
					return
				}
				for _, b := range infoOf(p) {
					if b.LastOffset < offset {
						t.Errorf("batch up to %d at %d", b.LastOffset, offset)
						return
					}
					offset = b.LastOffset + 1
				}
				if _, _, _, err := s.OffsetAt(1000+r.Int64N(5000), 0); err != nil {
					t.Error(err)
					return
				}
				if len(p) == 0 {
					offset = r.Int64N(s.NextOffset() + 1)
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(3, 3))
	for i := range 3000 {
		require.NoError(t, appendTo(s, batch(s.NextOffset(), 1+r.IntN(3), int64(1000+i), 20)))
		if i%50 == 49 {
			require.NoError(t, s.Truncate(s.NextOffset()-r.Int64N(20)))
		}
	}
	close(stop)
	wg.Wait()
}

// A batch is damaged: a read returns the complete batches before it, and the next read returns the
// error. The base offset of a batch behind a gap is certain only if the next header is readable.
func TestReadReturnsTheWholeBatchesBeforeDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bases []int64
		edit  func(p []byte, one int) []byte // of the fourth batch
		whole int
	}{
		"records":                       {[]int64{0, 1, 2, 3, 4}, func(p []byte, one int) []byte { p[4*one-1] ^= 1; return p }, 3},
		"magic":                         {[]int64{0, 1, 2, 3, 4}, func(p []byte, one int) []byte { p[3*one+16] ^= 1; return p }, 3},
		"base offset too low":           {[]int64{0, 1, 2, 3, 4}, func(p []byte, one int) []byte { p[3*one+7] ^= 1; return p }, 3},
		"base offset too high":          {[]int64{0, 1, 2, 3, 4}, func(p []byte, one int) []byte { p[3*one+7] ^= 64; return p }, 3},
		"zeros":                         {[]int64{0, 1, 2, 3, 4}, func(p []byte, one int) []byte { clear(p[3*one:]); return p }, 3},
		"file ends":                     {[]int64{0, 1, 2, 3, 4}, func(p []byte, one int) []byte { return p[:3*one+70] }, 3},
		"records behind a gap":          {[]int64{0, 1, 7, 9, 12}, func(p []byte, one int) []byte { p[4*one-1] ^= 1; return p }, 3},
		"magic behind a gap":            {[]int64{0, 1, 7, 9, 12}, func(p []byte, one int) []byte { p[3*one+16] ^= 1; return p }, 2},
		"base offset behind a gap":      {[]int64{0, 1, 7, 9, 12}, func(p []byte, one int) []byte { p[2*one+7] = 10; return p }, 2},
		"base offset raised into a gap": {[]int64{0, 1, 2, 9, 12}, func(p []byte, one int) []byte { p[3*one+7] = 13; return p }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys})
			require.NoError(t, err)
			var all []byte
			for _, base := range c.bases {
				all = append(all, batch(base, 1, 1, 40)...)
			}
			require.NoError(t, appendTo(s, all))
			require.NoError(t, s.Seal())
			require.NoError(t, s.Close())
			one := len(all) / len(c.bases)
			s, err = Open(testDir, 0, Config{FS: fsys}, OpenOptions{Clean: true, NextOffset: 13, Size: int64(len(all))})
			require.NoError(t, err)
			closed(t, s)
			f, err := fsys.OpenFile(segmentFile(LogSuffix), os.O_RDWR, 0)
			require.NoError(t, err)
			damaged := c.edit(slices.Clone(all), one)
			_, err = f.WriteAt(damaged, 0)
			require.NoError(t, errors.Join(err, f.Truncate(int64(len(damaged))), f.Close()))
			for range 2 { // verified or not
				p, err := s.ReadAt([]byte("x"), 0, 1<<20, -1)
				require.NoError(t, err)
				require.Equal(t, "x"+string(all[:c.whole*one]), string(p))
			}
			next := c.bases[c.whole-1] + 1
			_, err = s.ReadAt(nil, next, 1<<20, -1)
			var damage *CorruptError
			require.ErrorAs(t, err, &damage)
			require.Equal(t, next, damage.Offset)
			require.EqualValues(t, c.whole*one, damage.Pos/int64(one)*int64(one))
			_, err = s.ReadRange(nil, 0, len(all))
			require.ErrorAs(t, err, &damage, "all or nothing")
		})
	}
}
