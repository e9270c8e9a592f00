package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// limits are so long that no test waits for them.
var limits = Limits{FirstRequest: time.Hour, WholeRequest: time.Hour, Idle: time.Hour, SlowReader: time.Hour}

// connect returns a connection with size bytes of memory, and the client's end of it.
func connect(t *testing.T, size int) (*Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	c := New(t.Context(), near, NewMemory(size), limits, func(int16) int { return size })
	t.Cleanup(func() {
		far.Close()
		c.Close()
		c.Wait()
		require.Equal(t, size, c.memory.Budget.TryTake(size, size, nil), "not all was given back")
	})
	return c, far
}

// request returns a framed request of API 0 without a body.
func request(correlation int) []byte {
	b := binary.BigEndian.AppendUint32(nil, minFrame)
	b = binary.BigEndian.AppendUint32(b, 0) // key and version
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return append(b, 0xff, 0xff) // no client id
}

// Each request is answered in its own goroutine, in any order.
func TestAnswersComeInTheOrderOfTheRequests(t *testing.T) {
	const n = 200
	c, far := connect(t, 1<<20)
	go func() {
		for i := range n {
			far.Write(request(i))
		}
	}()
	var answering sync.WaitGroup
	defer answering.Wait()
	go func() {
		rng := rand.New(rand.NewPCG(1, 1))
		var todo []*Request
		for range n {
			r, err := c.Next()
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.memory.Budget.Take(t.Context(), 5, nil); err != nil {
				t.Error(err)
				return
			}
			r.Enqueue()
			todo = append(todo, r)
		}
		rng.Shuffle(n, func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for i, r := range todo {
			answering.Go(func() {
				r.Answer(Answer{Pieces: [][]byte{{byte(r.Correlation())}, {0}}, Charged: 5}, Writer(i%2))
			})
		}
	}()
	got := make([]byte, 2*n)
	_, err := io.ReadFull(far, got)
	require.NoError(t, err)
	for i := range n {
		require.Equal(t, []byte{byte(i), 0}, got[2*i:2*i+2])
	}
	require.NoError(t, c.AwaitPending(0))
}

func TestAConnectionEndsAfterOrInsteadOfAnAnswer(t *testing.T) {
	for end, want := range map[End]string{GoOn: "012", EndAfter: "01", EndBefore: "0"} {
		c, far := connect(t, 1<<20)
		go func() {
			for i := range 3 {
				far.Write(request(i))
			}
		}()
		var rs []*Request
		for range 3 {
			r, err := c.Next()
			require.NoError(t, err)
			r.Enqueue()
			rs = append(rs, r)
		}
		var answering sync.WaitGroup
		answering.Go(func() {
			rs[2].Answer(Answer{Pieces: [][]byte{[]byte("2")}}, Caller)
			rs[1].Answer(Answer{Pieces: [][]byte{[]byte("1")}, End: end}, Caller)
			rs[0].Answer(Answer{Pieces: [][]byte{[]byte("0")}}, Caller)
		})
		got := make([]byte, len(want))
		_, err := io.ReadFull(far, got)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		if end != GoOn {
			_, err = far.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			_, err = c.Next()
			require.Error(t, err)
		}
		answering.Wait()
	}
}

// The answers are complete long before the client reads them.
func TestFinishWaitsForAnswersToBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := connect(t, 1<<20)
		go func() {
			far.Write(request(0))
			far.Write(request(1))
		}()
		for i := range 2 {
			r, err := c.Next()
			require.NoError(t, err)
			r.Enqueue()
			go func() {
				if i == 1 {
					<-c.Waiting().Done()
				}
				r.Answer(Answer{Pieces: [][]byte{{byte('0' + i)}}}, Caller)
			}()
		}
		finished := make(chan bool, 1)
		go func() {
			c.Finish()
			finished <- true
		}()
		for _, want := range "01" {
			synctest.Wait()
			require.Empty(t, finished)
			got := make([]byte, 1)
			_, err := far.Read(got)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
		<-finished
	})
}

// A client that does not wait for answers has at most a mebibyte of requests in memory.
func TestAClientIsReadNoFurtherThanItsUnansweredRequestsAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := connect(t, 16<<20)
		large := binary.BigEndian.AppendUint32(nil, maxHeld)
		large = append(large, request(0)[4:]...)
		large = append(large, make([]byte, maxHeld-minFrame)...)
		go func() {
			far.Write(large)
			far.Write(request(1))
		}()
		r, err := c.Next()
		require.NoError(t, err)
		r.Enqueue()
		second := make(chan error, 1)
		go func() {
			r, err := c.Next()
			if err == nil {
				r.Drop()
			}
			second <- err
		}()
		synctest.Wait()
		require.Empty(t, second, "the second request was read")
		r.Answer(Answer{}, Caller)
		require.NoError(t, <-second)
	})
}

// Any bytes are read as requests until an error. Close returns all of their memory.
func FuzzRequests(f *testing.F) {
	f.Add(request(1), true)
	f.Add(append(request(1), request(2)...), false)
	f.Add([]byte{0, 0, 0, 12, 0, 18, 0, 3, 0, 0, 0, 1, 0, 0, 1, 0}, true)
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0}, true)
	f.Fuzz(func(t *testing.T, sent []byte, flexible bool) {
		const size = 1 << 20
		near, far := net.Pipe()
		m := NewMemory(size)
		c := New(t.Context(), near, m, limits, func(int16) int { return size })
		go func() {
			far.Write(sent)
			far.Close()
		}()
		var read []byte
		for {
			r, err := c.Next()
			if err != nil {
				break
			}
			read = append(binary.BigEndian.AppendUint32(read, uint32(len(r.Bytes))), r.Bytes...)
			if id, body, err := r.Header(flexible); err == nil {
				require.LessOrEqual(t, len(id)+len(body), len(r.Bytes)-minFrame)
			} else {
				require.ErrorIs(t, err, ErrMalformed)
			}
			r.Drop()
		}
		require.True(t, bytes.HasPrefix(sent, read))
		c.StopReading()
		c.Close()
		require.Equal(t, size, m.Budget.TryTake(size, size, nil), "not all was given back")
	})
}
