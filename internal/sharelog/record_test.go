package sharelog

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// eachGolden calls f with every record of partitions of __share_group_state that a real Kafka
// wrote.
func eachGolden(t testing.TB, f func(partition int32, r record.Record)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		_, number, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".log"), Topic+"-")
		partition, err := strconv.Atoi(number)
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err, file)
			for r, err := range b.All() {
				require.NoError(t, err, file)
				f(int32(partition), r)
			}
			p = p[n:]
		}
	}
}

// Checklist row S4.
func TestEveryRecordThatKafkaWroteIsUnderstoodAndWrittenAlike(t *testing.T) {
	seen := map[string]int{}
	var v *Value
	eachGolden(t, func(partition int32, kafkas record.Record) {
		r, known, err := ParseRecord(kafkas.Key, kafkas.Value)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, kafkas.Key, AppendKey(nil, r.Key, r.Update))
		require.Equal(t, partition, PartitionFor(r.Key.ID(), 4), "of the partitions that there were")
		key, err := ParseID(r.Key.ID())
		require.NoError(t, err)
		require.Equal(t, r.Key, key)
		if r.Value == nil {
			require.Nil(t, kafkas.Value)
			seen["tombstone"]++
			return
		}
		require.Equal(t, kafkas.Value, r.Value.AppendTo(nil, r.Update), "%+v", r.Value)
		for _, b := range r.Value.Batches {
			seen["state "+strconv.Itoa(int(b.State))]++
		}
		if !r.Update {
			seen["snapshot"]++
			v = r.Value
			return
		}
		seen["update"]++
		require.NotNil(t, v)
		v = v.Apply(r.Value)
	})
	for _, what := range []string{"snapshot", "update", "tombstone", "state 0", "state 2", "state 4"} {
		require.Positive(t, seen[what], "%s in %v", what, seen)
	}
}

func FuzzParseRecord(f *testing.F) {
	eachGolden(f, func(_ int32, r record.Record) { f.Add(r.Key, r.Value) })
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, known, err := ParseRecord(key, value)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		if !known || r.Value == nil {
			return
		}
		if len(r.Value.Batches) > 0 {
			require.LessOrEqual(t, len(r.Value.Batches)*batchSize, len(value))
		}
		again, _, err := ParseRecord(AppendKey(nil, r.Key, r.Update), r.Value.AppendTo(nil, r.Update))
		require.NoError(t, err)
		require.Equal(t, r, again)
		r.Value.Apply(r.Value)
	})
}

func FuzzParseID(f *testing.F) {
	f.Add("group:of:colons:rJRpwSdwTEy0aVRHKCb9GA:1")
	f.Add("::")
	f.Fuzz(func(t *testing.T, id string) {
		k, err := ParseID(id)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseID(k.ID())
		require.NoError(t, err)
		require.Equal(t, k, again)
	})
}

// Checklist row S4: an update prevails, offset by offset.
func TestAnUpdatePrevailsOverWhatThereIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	batches := func(from int64) (all []Batch) {
		for o := from + int64(rng.IntN(4)); o < from+40; {
			b := Batch{First: o, Last: o + int64(rng.IntN(6)), State: int8(2 * rng.IntN(3)), Count: int16(rng.IntN(2))}
			all = append(all, b)
			o = b.Last + 1 + int64(rng.IntN(4))
		}
		return all
	}
	lay := func(on map[int64]Batch, all []Batch) {
		for _, b := range all {
			for o := b.First; o <= b.Last; o++ {
				on[o] = Batch{State: b.State, Count: b.Count}
			}
		}
	}
	for range 3000 {
		v := &Value{Start: int64(rng.IntN(10)), LeaderEpoch: 3}
		v.Batches = batches(v.Start)
		u := &Value{Start: v.Start + int64(rng.IntN(12)), LeaderEpoch: 4, Complete: 7}
		u.Batches = batches(u.Start)
		start, epoch := u.Start, u.LeaderEpoch
		if rng.IntN(4) == 0 {
			u.Start, u.LeaderEpoch, start, epoch = -1, -1, v.Start, v.LeaderEpoch
		}
		want := map[int64]Batch{}
		lay(want, v.Batches)
		lay(want, u.Batches)
		for o := range want {
			if o < start {
				delete(want, o)
			}
		}
		n := v.Apply(u)
		got := map[int64]Batch{}
		lay(got, n.Batches)
		require.Equal(t, want, got, "%+v %+v", v, u)
		require.Equal(t, []any{start, epoch, int32(7)}, []any{n.Start, n.LeaderEpoch, n.Complete})
		for i := 1; i < len(n.Batches); i++ {
			a, b := n.Batches[i-1], n.Batches[i]
			require.Less(t, a.Last, b.First)
			require.False(t, a.Last+1 == b.First && a.State == b.State && a.Count == b.Count, "%+v", n.Batches)
		}
	}
}
