package watermark

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestPopTakesExactlyThePrefixBelowTheLimit(t *testing.T) {
	var q Queue[string]
	for name, key := range map[string]int64{"a": 3, "b": 1, "c": 5, "d": 4} {
		q.Add(&Entry[string]{Value: name}, key)
	}
	var got []string
	for e := q.Pop(5); e != nil; e = q.Pop(5) {
		got = append(got, e.Value)
		require.False(t, e.Queued())
	}
	require.Equal(t, []string{"b", "a", "d"}, got)
	key, ok := q.Min()
	require.True(t, ok)
	require.Equal(t, int64(5), key)
	require.Equal(t, 1, q.Len())
}

func TestRemoveOfAnEntryThatIsNotQueuedIsRefused(t *testing.T) {
	var q Queue[int]
	e := &Entry[int]{}
	require.False(t, q.Remove(e))
	q.Add(e, 1)
	require.True(t, q.Remove(e))
	require.False(t, q.Remove(e))
	_, ok := q.Min()
	require.False(t, ok)
}

func TestQueueAgreesWithASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		var model []*Entry[int] // sorted by key
		byKey := func(a, b *Entry[int]) int { return int(a.key - b.key) }
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				e := &Entry[int]{Value: i}
				q.Add(e, rapid.Int64Range(0, 50).Draw(t, "key"))
				model = append(model, e)
				slices.SortStableFunc(model, byKey)
			case 1:
				if len(model) > 0 {
					k := rapid.IntRange(0, len(model)-1).Draw(t, "which")
					require.True(t, q.Remove(model[k]))
					model = slices.Delete(model, k, k+1)
				}
			case 2:
				limit := rapid.Int64Range(0, 50).Draw(t, "limit")
				for e := q.Pop(limit); e != nil; e = q.Pop(limit) {
					require.Equal(t, model[0].key, e.key)
					model = slices.DeleteFunc(model, func(x *Entry[int]) bool { return x == e })
				}
				require.False(t, len(model) > 0 && model[0].key < limit)
			}
			require.Equal(t, len(model), q.Len())
			if key, ok := q.Min(); ok {
				require.Equal(t, model[0].key, key)
			}
		}
	})
}

func TestAddAndPopDoNotAllocate(t *testing.T) {
	var q Queue[int]
	es := make([]Entry[int], 64)
	run := func() {
		for i := range es {
			q.Add(&es[i], int64(i))
		}
		for q.Pop(64) != nil {
		}
	}
	run()
	require.Zero(t, testing.AllocsPerRun(100, run))
}
