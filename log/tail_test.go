package log

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestTailIsReadWithoutTheFile(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Sync: SyncNever})
	require.NoError(t, err)
	for range 20 {
		_, err = l.Read(nil, l.EndOffset(), 1<<20) // a reader reads at the end
		require.NoError(t, err)
		fill(t, l, 100)
	}
	reads := disk.Count(vfs.OpRead)
	for from := l.EndOffset() - 1500; from < l.EndOffset(); from++ {
		p, err := l.Read(nil, from, 1)
		require.NoError(t, err)
		b, n, err := record.Parse(p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
		require.Equal(t, from, b.BaseOffset)
		p, err = l.ReadUpTo(nil, from, 1<<20, from+1)
		require.NoError(t, err)
		require.Len(t, p, n)
		_, err = l.Read(nil, from, 1<<20) // a reader that stays at the end keeps the tail
		require.NoError(t, err)
	}
	require.Equal(t, reads, disk.Count(vfs.OpRead))
	require.NoError(t, l.Close())
}

func TestTailEndsWithATruncation(t *testing.T) {
	t.Parallel()
	l := openMem(t, vfs.Mem())
	_, err := l.Read(nil, 0, 1)
	require.NoError(t, err)
	fill(t, l, 10)
	require.NoError(t, l.TruncateTo(4))
	_, err = l.Append(t.Context(), record.String("", "", "new"))
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2", "3", "new"}, values(t, l))
	require.NoError(t, l.Close())
}

// Tails of several logs take chunks from each other during reads: a read returns the right bytes
// or none.
func TestTailsThatTakeChunksFromEachOtherAreReadRight(t *testing.T) {
	t.Parallel()
	pool := newTailPool(4 * chunkBytes)
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 3 {
		tl, end := &tail{}, make(chan int64, 1)
		end <- 0
		tl.keep()
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for i := range int64(20000) {
				var b record.Builder
				b.AppendKV(1, nil, fmt.Appendf(nil, "%d/%d", w, i), nil)
				b.AppendKV(1, nil, make([]byte, rnd.IntN(300)), nil)
				p := b.Bytes()
				record.SetBaseOffset(p, 2*i)
				tl.push(pool, 2*i, p, []segment.BatchInfo{{Size: len(p), BaseOffset: 2 * i, LastOffset: 2*i + 1}})
				<-end
				end <- 2*i + 2
			}
		})
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				e := <-end
				end <- e
				if e == 0 {
					continue
				}
				tl.keep()
				from := max(0, e-1-rnd.Int64N(3000))
				p, ok := tl.read(nil, from, rnd.IntN(5000), e)
				if !ok {
					continue
				}
				for first := true; len(p) > 0; first = false {
					b, n, err := record.Parse(p)
					if err != nil || first && (b.BaseOffset > from || b.LastOffset() < from) || b.LastOffset() >= e {
						t.Errorf("read at %d of %d: %v %v", from, e, b, err)
						return
					}
					for r := range b.All() {
						if r.Offset%2 == 0 && string(r.Value) != fmt.Sprintf("%d/%d", w, r.Offset/2) {
							t.Errorf("offset %d holds %q", r.Offset, r.Value)
						}
					}
					p = p[n:]
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	require.LessOrEqual(t, pool.made, 4)
}

// Readers at the end cost the writer nothing: it writes as often as without them, and they read
// from memory. BenchmarkTailingReaders measures the times.
func TestReadersAtTheEndReadFromMemory(t *testing.T) {
	const rounds = 300
	counts := func(readers int) (writes, reads int64) {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.Mem()
			l, err := Open("log", Config{FS: disk})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var seen atomic.Int64
			for range readers {
				wg.Go(func() {
					next := int64(0)
					for r, err := range l.Follow(ctx, 0) {
						if err != nil || r.Offset != next {
							t.Errorf("offset %d, want %d: %v", r.Offset, next, err)
							return
						}
						next++
						seen.Add(1)
					}
				})
			}
			synctest.Wait()
			before := [2]int64{disk.Count(vfs.OpWrite), disk.Count(vfs.OpRead)}
			for range rounds {
				fill(t, l, 1)
				synctest.Wait()
			}
			writes, reads = disk.Count(vfs.OpWrite)-before[0], disk.Count(vfs.OpRead)-before[1]
			cancel()
			wg.Wait()
			require.EqualValues(t, rounds*readers, seen.Load())
			require.NoError(t, l.Close())
		})
		return writes, reads
	}
	alone, _ := counts(0)
	writes, reads := counts(100)
	require.Equal(t, alone, writes)
	require.LessOrEqual(t, reads, int64(200), "of 30,000: the first round, before anybody is known to read at the end")
}
