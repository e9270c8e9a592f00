package transport

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// peer returns a connection that shares memory with others, and the client's end of it.
func peer(t *testing.T, m *Memory, guest bool) (*Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	c := New(t.Context(), near, m, limits, func(int16) int { return m.Budget.Size() })
	if guest {
		c.AsGuest()
	}
	t.Cleanup(func() {
		far.Close()
		c.Close()
		c.Wait()
	})
	return c, far
}

// announced returns the first bytes of a request of API 0 that has size bytes.
func announced(size int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(size)), request(0)[4:]...)
}

// next reads a request in a goroutine of its own. The result is its error, or nil.
func next(c *Conn) chan error {
	ended := make(chan error, 1)
	go func() {
		r, err := c.Next()
		if err == nil {
			r.Drop()
		}
		ended <- err
	}()
	return ended
}

func TestSmallTakesDoNotWaitForLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8 << 20)
		require.NoError(t, b.Take(t.Context(), 6<<20, nil))
		large := make(chan error, 2)
		for range 2 {
			go func() { large <- b.Take(t.Context(), 4<<20, nil) }()
		}
		synctest.Wait()
		for range 16 { // the whole reserve
			require.NoError(t, b.Take(t.Context(), smallTake, nil))
		}
		require.Zero(t, b.TryTake(smallTake, smallTake, nil))
		b.Give(16*smallTake, nil)
		for range 100 { // take the free memory again and again
			b.Give(smallTake, nil)
			require.NoError(t, b.Take(t.Context(), smallTake, nil))
			synctest.Wait()
		}
		require.Empty(t, large)
		b.Give(6<<20, nil)
		require.NoError(t, <-large)
		synctest.Wait()
		require.Empty(t, large, "more than there is")
		b.Give(4<<20, nil)
		require.NoError(t, <-large)
		b.Give(4<<20, nil)
		require.Equal(t, 8<<20, b.TryTake(8<<20, 8<<20, nil))
	})
}

func TestATakeThatIsGivenUpHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8 << 20)
		require.NoError(t, b.Take(t.Context(), 4<<20, nil))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- b.Take(ctx, 7<<20, nil) }()
		synctest.Wait()
		go func() { second <- b.Take(t.Context(), 3<<20, nil) }()
		synctest.Wait()
		require.Empty(t, second)
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, <-second)
		b.Give(7<<20, nil)
		require.Equal(t, 8<<20, b.TryTake(8<<20, 8<<20, nil))
	})
}

// Three clients hold most of the memory with requests whose rest does not come, or comes a byte at
// a time.
func TestAHalfRequestIsEndedWhenOthersNeedItsMemory(t *testing.T) {
	for name, rest := range map[string]func(far net.Conn){
		"nothing more comes": func(net.Conn) {},
		"a byte comes every 100 ms": func(far net.Conn) {
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				if _, err := far.Write([]byte{0}); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 8 << 20
				m := NewMemory(size)
				var half []chan error
				var coming sync.WaitGroup
				for range 3 {
					c, far := peer(t, m, false)
					half = append(half, next(c))
					far.Write(announced(size / 5))
					far.Write(make([]byte, size/6))
					defer coming.Wait()
					defer far.Close()
					coming.Go(func() { rest(far) })
				}
				c, far := peer(t, m, false)
				large := next(c)
				begin := time.Now()
				far.Write(announced(size / 4))
				far.Write(make([]byte, size/4-minFrame))
				require.NoError(t, <-large)
				require.Less(t, time.Since(begin), 3*time.Second)
				ended := 0
				for _, err := range half {
					ended += len(err)
				}
				require.Equal(t, 1, ended, "as many as it takes, and no more")
			})
		})
	}
}

func TestARequestThatComesInTimeIsNotEndedForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		m := NewMemory(2 * size)
		c, far := peer(t, m, false)
		slow := next(c)
		far.Write(announced(size))
		go func() {
			for left := size - minFrame; left > 0; left -= leastRate {
				time.Sleep(time.Second / 2)
				far.Write(make([]byte, min(left, leastRate)))
			}
		}()
		time.Sleep(6 * time.Second)
		c2, far2 := peer(t, m, false)
		large := next(c2)
		begin := time.Now()
		far2.Write(announced(size))
		far2.Write(make([]byte, size-minFrame))
		require.NoError(t, <-large)
		require.Greater(t, time.Since(begin), time.Second, "there was room for both")
		require.NoError(t, <-slow)
	})
}

func TestAClientThatDoesNotReadIsEndedWhenOthersNeedItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		m := NewMemory(size)
		c, far := peer(t, m, false)
		go far.Write(request(1))
		r, err := c.Next()
		require.NoError(t, err)
		r.Enqueue()
		r.Answer(Answer{Pieces: [][]byte{make([]byte, size)}}, Another)
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, m.Budget.Take(t.Context(), smallTake, nil))
		require.Less(t, time.Since(begin), time.Second)
		_, err = far.Write(request(2))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		m.Budget.Give(smallTake, nil)
	})
}

// Answers of all APIs count, even if no handler charged them.
func TestAClientThatDoesNotReadItsAnswersIsNotReadFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answer = 100 << 10
		m := NewMemory(64 << 20)
		c, far := peer(t, m, false)
		sent := 0
		go func() {
			for range 10 * maxHeld / answer {
				if _, err := far.Write(request(sent)); err != nil {
					return
				}
				sent++
			}
		}()
		go func() {
			for {
				r, err := c.Next()
				if err != nil {
					return
				}
				r.Enqueue()
				r.Answer(Answer{Pieces: [][]byte{make([]byte, answer)}}, Another)
			}
		}()
		synctest.Wait()
		require.Less(t, sent, maxHeld/answer+3)
		require.Less(t, c.held.Load(), int64(maxHeld+2*answer))
		require.GreaterOrEqual(t, c.charged.Load(), int64(maxHeld-answer))
		go io.Copy(io.Discard, far)
		synctest.Wait()
		require.Equal(t, 10*maxHeld/answer, sent, "it is read from again once it reads")
	})
}

func TestClientsThatAreNotTrustedTakeMemoryOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(64 << 20)
		for range 100 {
			c, far := peer(t, m, true)
			next(c)
			far.Write(announced(512 << 10))
			go far.Write(make([]byte, 300<<10))
		}
		synctest.Wait()
		require.Equal(t, 64<<20, m.Budget.TryTake(64<<20, 64<<20, nil), "bytes of the trusted are taken")
		m.Budget.Give(64<<20, nil)
		require.Zero(t, m.Guests.TryTake(512<<10, 512<<10, nil))
		c, far := peer(t, m, true)
		login := next(c)
		begin := time.Now()
		far.Write(announced(4000))
		far.Write(make([]byte, 4000-minFrame))
		require.NoError(t, <-login)
		require.Zero(t, time.Since(begin), "a login waits for others")
	})
}

func TestAnAnnouncedRequestTakesLittleBeforeItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(64 << 20)
		c, far := peer(t, m, false)
		next(c)
		far.Write(announced(32 << 20)[:10])
		synctest.Wait()
		require.LessOrEqual(t, c.charged.Load(), int64(4<<10))
		far.Write(make([]byte, 10<<10))
		synctest.Wait()
		require.LessOrEqual(t, c.charged.Load(), int64(5*(10<<10)+overhead))
	})
}

func TestAClientThatDoesNotReadHoldsUpTheEndForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := peer(t, NewMemory(64<<20), false)
		go far.Write(request(1))
		r, err := c.Next()
		require.NoError(t, err)
		r.Enqueue()
		r.Answer(Answer{Pieces: [][]byte{make([]byte, 4<<20)}}, Another)
		synctest.Wait()
		begin := time.Now()
		c.Drain()
		c.Finish()
		require.Equal(t, lastReader, time.Since(begin))
	})
}

func TestAClientThatReadsSlowlyHoldsUpTheEndForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := peer(t, NewMemory(64<<20), false)
		go far.Write(request(1))
		r, err := c.Next()
		require.NoError(t, err)
		r.Enqueue()
		r.Answer(Answer{Pieces: [][]byte{make([]byte, 4<<20)}}, Another)
		read := make(chan struct{})
		go func() {
			defer close(read)
			for {
				time.Sleep(lastReader - time.Second)
				if _, err := io.ReadFull(far, make([]byte, maxWrite)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		begin := time.Now()
		c.Drain()
		c.Finish()
		require.Equal(t, lastReader, time.Since(begin))
		far.Close()
		<-read
	})
}

func TestAnswersAreServedBeforeRequestsThatWouldFillTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8 << 20)
		for range 6 {
			require.NoError(t, b.takeRequest(t.Context(), &take{n: 1 << 20}, time.Hour))
		}
		seventh := make(chan error, 1)
		go func() { seventh <- b.takeRequest(t.Context(), &take{n: 1 << 20}, time.Hour) }()
		synctest.Wait()
		require.Empty(t, seventh, "no memory is left for answers")
		require.NoError(t, b.Take(t.Context(), 1<<20, nil))
		b.Give(1<<20, nil) // the answer
		b.Give(1<<20, nil) // its request
		require.NoError(t, <-seventh)
	})
}

func TestAnOwnerOfMuchWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8 << 20)
		var greedy, modest Owner
		for range 7 {
			require.NoError(t, b.Take(t.Context(), 1<<20, &greedy))
		}
		served := make(chan *Owner, 12)
		wait := func(by *Owner) {
			require.NoError(t, b.Take(t.Context(), 1<<20, by))
			served <- by
		}
		for range 10 {
			go wait(&greedy)
		}
		synctest.Wait()
		go wait(&modest)
		synctest.Wait()
		b.Give(1<<20, &greedy)
		require.Same(t, &modest, <-served)
		for range 10 {
			b.Give(1<<20, &greedy)
			require.Same(t, &greedy, <-served)
		}
		require.EqualValues(t, 6<<20, greedy.holds())
		require.EqualValues(t, 1<<20, modest.holds())
	})
}

// Three large requests of one owner arrive in time, and together fill the memory for a minute.
func TestARequestOfAGreedyOwnerIsEndedForAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 32 << 20
		m := NewMemory(size)
		var greedy, modest Owner
		var coming sync.WaitGroup
		var fars []net.Conn
		var ended atomic.Int64
		for range 3 {
			c, far := peer(t, m, false)
			c.Own(&greedy)
			fars = append(fars, far)
			come := next(c)
			far.Write(announced(size / 4))
			coming.Go(func() {
				for left := size/4 - minFrame; left > 0; left -= leastRate {
					time.Sleep(time.Second / 2)
					if _, err := far.Write(make([]byte, min(left, leastRate))); err != nil {
						break
					}
				}
				if <-come != nil {
					ended.Add(1)
				}
			})
		}
		time.Sleep(12 * time.Second)
		c, far := peer(t, m, false)
		c.Own(&modest)
		large := next(c)
		begin := time.Now()
		far.Write(announced(size / 8))
		far.Write(make([]byte, size/8-minFrame))
		require.NoError(t, <-large)
		require.Less(t, time.Since(begin), time.Second)
		for _, far := range fars {
			far.Close()
		}
		coming.Wait()
		require.NotZero(t, ended.Load())
	})
}

func TestConnectionsAreEndedForTheFirstWaitingTakeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8 << 20)
		looks := 0
		b.relieve = func(int, *Owner) { looks++ } // each looks at all connections
		require.NoError(t, b.Take(t.Context(), 8<<20, nil))
		ctx, cancel := context.WithTimeout(t.Context(), firstLook+laterLook*9+laterLook/2)
		defer cancel()
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() { b.Take(ctx, 1<<20, nil) })
			synctest.Wait()
		}
		waiting.Wait()
		require.Equal(t, 10, looks)
	})
}
