package memnet

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

func pipe(t testing.TB) (*Conn, *Conn) {
	a, b := Pipe(Addr("a:1"), Addr("b:2"))
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestBytesArriveOnceAndInOrderBothWays(t *testing.T) {
	a, b := pipe(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i, ends := range [][2]*Conn{{a, b}, {b, a}} {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		sent := make([]byte, 3*BufferSize+17)
		for j := range sent {
			sent[j] = byte(rng.Uint32())
		}
		sizes := rand.New(rand.NewPCG(seed, uint64(i)+10))
		wg.Go(func() {
			for p := sent; len(p) > 0; {
				n := min(1+sizes.IntN(5000), len(p))
				m, err := ends[0].Write(p[:n])
				if err != nil || m != n {
					t.Errorf("write: %d of %d, %v", m, n, err)
					return
				}
				p = p[n:]
			}
			ends[0].CloseWrite()
		})
		wg.Go(func() {
			got, err := io.ReadAll(ends[1])
			if err != nil || !bytes.Equal(sent, got) {
				t.Errorf("read %d bytes of %d, %v", len(got), len(sent), err)
			}
		})
	}
	wg.Wait()
}

func TestWriteReturnsBeforeThePeerReads(t *testing.T) {
	a, b := pipe(t)
	for _, c := range []*Conn{a, b} { // both write first: a net.Pipe would wait for ever
		n, err := c.Write(make([]byte, BufferSize))
		require.NoError(t, err)
		require.Equal(t, BufferSize, n)
	}
	_, err := io.ReadFull(a, make([]byte, BufferSize))
	require.NoError(t, err)
}

func TestWriteWaitsWhenTheBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		done := make(chan int)
		go func() {
			n, _ := a.Write(make([]byte, BufferSize+1))
			done <- n
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("written without room")
		default:
		}
		_, err := b.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, BufferSize+1, <-done)
	})
}

func TestBufferNeverExceedsItsBound(t *testing.T) {
	a, b := pipe(t)
	p := make([]byte, 10_000)
	for range 1000 { // half of it stays unread: growth in place of moving would show
		_, err := a.Write(p)
		require.NoError(t, err)
		if len(a.out.buf)-a.out.off > BufferSize/2 {
			_, err = io.ReadFull(b, p)
			require.NoError(t, err)
		}
	}
	require.LessOrEqual(t, cap(a.out.buf), 2*BufferSize)
}

func TestPeerReadsTheRestAfterClose(t *testing.T) {
	a, b := pipe(t)
	_, err := a.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "last words", string(got))
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "write", op.Op)
}

func TestCloseWriteLeavesTheOtherDirectionOpen(t *testing.T) {
	a, b := pipe(t)
	require.NoError(t, a.CloseWrite())
	_, err := a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	_, err = b.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = b.Write([]byte("x"))
	require.NoError(t, err)
	_, err = a.Read(make([]byte, 1))
	require.NoError(t, err)
}

func TestClosedEndSaysSo(t *testing.T) {
	a, _ := pipe(t)
	require.NoError(t, a.Close())
	_, err := a.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, a.Close(), net.ErrClosed)
	require.NoError(t, a.SetDeadline(time.Now().Add(time.Hour))) // sets no timer
	require.Nil(t, a.in.readBy.timer)
	require.Nil(t, a.out.writeBy.timer)
}

func TestCloseEndsWaits(t *testing.T) {
	for name, closer := range map[string]func(a, b *Conn) error{
		"own":    func(a, _ *Conn) error { return a.Close() },
		"peer's": func(_, b *Conn) error { return b.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipe(t)
				errs := make(chan error, 2)
				go func() { _, err := a.Read(make([]byte, 1)); errs <- err }()
				go func() { _, err := a.Write(make([]byte, BufferSize+1)); errs <- err }()
				synctest.Wait()
				require.NoError(t, closer(a, b))
				require.Error(t, <-errs)
				require.Error(t, <-errs)
			})
		})
	}
}

func TestDeadlinesEndWaitsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pipe(t)
		start := time.Now()
		require.NoError(t, a.SetReadDeadline(start.Add(time.Hour)))
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, time.Hour, time.Since(start))

		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Hour)))
		n, err := a.Write(make([]byte, BufferSize+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, BufferSize, n)
		require.Equal(t, 2*time.Hour, time.Since(start))
	})
}

func TestDeadlineCanBeMovedWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		require.NoError(t, a.SetDeadline(time.Now().Add(time.Minute)))
		errs := make(chan error)
		read := func() { _, err := a.Read(make([]byte, 1)); errs <- err }
		go read()
		synctest.Wait()
		require.NoError(t, a.SetDeadline(time.Time{})) // off: the hour passes
		time.Sleep(time.Hour)
		require.NoError(t, a.SetReadDeadline(time.Now().Add(-1))) // past: at once
		require.ErrorIs(t, <-errs, os.ErrDeadlineExceeded)
		require.NoError(t, a.SetReadDeadline(time.Now().Add(time.Minute))) // and usable again
		go read()
		_, err := b.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, <-errs)
	})
}

func BenchmarkPingPong(b *testing.B) {
	x, y := pipe(b)
	p := make([]byte, 100)
	go func() {
		q := make([]byte, 100)
		for {
			if _, err := io.ReadFull(y, q); err != nil {
				return
			}
			if _, err := y.Write(q); err != nil {
				return
			}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(x, p); err != nil {
			b.Fatal(err)
		}
	}
	x.Close()
}
