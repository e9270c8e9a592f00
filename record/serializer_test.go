package record

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type point struct{ X, Y int }

// roundTrip also checks at compile time that the functions fit the types.
func roundTrip[T any](t *testing.T, ser Serializer[T], dec func([]byte) (T, error), values ...T) {
	t.Helper()
	for _, v := range values {
		p, err := ser("topic", v)
		require.NoError(t, err)
		require.NotNil(t, p)
		got, err := dec(p)
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
}

func TestSerializersAreUndoneByTheirDecoders(t *testing.T) {
	t.Parallel()
	roundTrip(t, SerializeJSON[point], DecodeJSON[point], point{}, point{1, -2})
	roundTrip(t, SerializeJSON[[]string], DecodeJSON[[]string], []string{"a", ""})
	roundTrip(t, SerializeString, DecodeString, "", "text", "\x00\xff")
	roundTrip(t, SerializeBytes, DecodeBytes, []byte{}, []byte("bytes"))
	roundTrip(t, SerializeInt64, DecodeInt64, 0, 1, -1, math.MaxInt64, math.MinInt64)

	v, err := DecodeJSON[point](nil)
	require.NoError(t, err, "a tombstone is the zero value")
	require.Zero(t, v)
	_, err = DecodeInt64([]byte("short"))
	require.Error(t, err)
	_, err = SerializeJSON("topic", make(chan int))
	require.Error(t, err)
}

func TestIntegersSortAsTheirBytesDo(t *testing.T) {
	t.Parallel()
	numbers := []int64{math.MinInt64, -1 << 40, -256, -255, -1, 0, 1, 255, 256, 1 << 40, math.MaxInt64}
	var keys [][]byte
	for _, n := range numbers {
		k, err := SerializeInt64("", n)
		require.NoError(t, err)
		keys = append(keys, k)
	}
	require.True(t, slices.IsSortedFunc(keys, bytes.Compare))
}

func TestJSONRecord(t *testing.T) {
	t.Parallel()
	r, err := JSON("orders", "k", point{1, 2})
	require.NoError(t, err)
	require.Equal(t, Record{Topic: "orders", Key: []byte("k"), Value: []byte(`{"X":1,"Y":2}`)}, r)
	r, err = JSON("orders", "", nil)
	require.NoError(t, err)
	require.Nil(t, r.Key)
	require.Equal(t, "null", string(r.Value))
	_, err = JSON("orders", "k", func() {})
	require.ErrorContains(t, err, "orders")
}

func stream(errAtEnd error, values ...string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for i, v := range values {
			r := String("t", "k", v)
			r.Offset = int64(i)
			if !yield(r, nil) {
				return
			}
		}
		if errAtEnd != nil {
			yield(Record{}, errAtEnd)
		}
	}
}

func TestDecodingErrorComesWithItsRecordAndTheStreamGoesOn(t *testing.T) {
	t.Parallel()
	end := errors.New("end")
	var got []point
	var bad []int64
	var errs []error
	for v, err := range Decode(stream(end, `{"X":1}`, `nonsense`, `{"X":2}`), DecodeJSON[point]) {
		if err != nil {
			bad, errs = append(bad, v.Record.Offset), append(errs, err)
			continue
		}
		got = append(got, v.Value)
	}
	require.Equal(t, []point{{X: 1}, {X: 2}}, got)
	require.Equal(t, []int64{1, 0}, bad)
	require.ErrorIs(t, errs[1], end)

	n := 0
	for range Decode(stream(nil, "1", "2", "3"), DecodeJSON[int]) {
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}

func TestKeyAndValueAreDecodedTogether(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	dec := func(r Record) (string, int, error) {
		if r.Offset == 1 {
			return "", 0, refused
		}
		v, err := DecodeJSON[int](r.Value)
		return string(r.Key), v, err
	}
	var got []int
	for v, err := range DecodeRecord(stream(nil, "1", "2", "3"), dec) {
		if v.Record.Offset == 1 {
			require.ErrorIs(t, err, refused)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "k", v.Key)
		got = append(got, v.Value)
	}
	require.Equal(t, []int{1, 3}, got)
	for range DecodeRecord(stream(nil, "1", "2"), dec) {
		break
	}
}
