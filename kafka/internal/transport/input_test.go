package transport

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

func TestInputGivesItsBufferBackWhileNothingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		defer ours.Close()
		in := &input{conn: &Conn{nc: ours}}
		sent := []byte("0123456789abcdef")
		go theirs.Write(sent)
		got, err := in.peek(6)
		require.NoError(t, err)
		require.Equal(t, sent[:6], got)
		in.skip(10)
		require.NoError(t, in.wait(time.Now()), "there is something")
		rest := make([]byte, 6)
		require.NoError(t, in.readFull(rest))
		require.Equal(t, sent[10:], rest)
		require.NotNil(t, in.buf)

		began := time.Now()
		err = in.wait(began.Add(time.Hour))
		require.True(t, isTimeout(err))
		require.Equal(t, time.Hour, time.Since(began), "the deadline counts, not the nap")
		require.Nil(t, in.buf)

		go theirs.Write(sent)
		require.NoError(t, in.wait(time.Now().Add(time.Hour)))
		got, err = in.peek(9) // more bytes than a sleeping input holds
		require.NoError(t, err)
		require.Equal(t, sent[:9], got)
		require.NotNil(t, in.buf)
		in.close()
	})
}

func TestInputReadsLargeBodiesBehindWhatWasReadAhead(t *testing.T) {
	for _, size := range []int{1, 100, inputBytes - 1, inputBytes, 3*inputBytes + 1} {
		ours, theirs := net.Pipe()
		in := &input{conn: &Conn{nc: ours}}
		sent := bytes.Repeat([]byte("abcdefg"), size)[:size]
		go func() {
			theirs.Write(append([]byte("head"), sent[:size/2]...))
			theirs.Write(append(sent[size/2:size:size], "next"...))
		}()
		_, err := in.peek(4)
		require.NoError(t, err)
		in.skip(4)
		got := make([]byte, size)
		require.NoError(t, in.readFull(got))
		require.Equal(t, sent, got)
		next, err := in.peek(4)
		require.NoError(t, err)
		require.Equal(t, "next", string(next))
		ours.Close()
		theirs.Close()
		in.skip(4)
		require.Error(t, in.wait(time.Now().Add(time.Hour)))
	}
}

func TestBuffersHaveRoomForWhatTheyAreTakenFor(t *testing.T) {
	for _, size := range []int{leastKept, leastKept + 1, 5000, 64 << 10, 100_000, mostKept - 1, mostKept} {
		KeepBuffer(make([]byte, 3, size))
		for _, want := range []int{size / 4, size / 2, size, size + 1} {
			if b := TakeBuffer(want); cap(b) > 0 {
				require.Empty(t, b)
				require.GreaterOrEqual(t, cap(b), want)
				require.Less(t, cap(b), 4*want)
				KeepBuffer(b)
			}
		}
	}
	require.Zero(t, cap(TakeBuffer(mostKept+1)))
	require.Zero(t, cap(TakeBuffer(leastKept-1)))
}
