package mirror

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// compacted removes some of the records that compaction may remove: those with a later one of their
// key, and then tombstones.
func compacted(rnd *rand.Rand, log []record.Record) (rest []record.Record) {
	last, kept := map[string]int{}, map[string]bool{}
	for i, r := range log {
		last[string(r.Key)] = i
	}
	for i, r := range log {
		key := string(r.Key)
		if removable := last[key] > i || r.Value == nil && !kept[key] && i < len(log)-1; !removable || rnd.IntN(2) == 0 {
			rest, kept[key] = append(rest, r), true
		}
	}
	return rest
}

// state returns the last value of each key.
func state(log []record.Record) map[string]string {
	values := map[string]string{}
	for _, r := range log {
		if values[string(r.Key)] = string(r.Value); r.Value == nil {
			delete(values, string(r.Key))
		}
	}
	return values
}

func entries(log []record.Record) (es []entry) {
	for i := range log {
		es = append(es, entryOf(&log[i]))
	}
	return es
}

func TestCompactedLogsAreAlignedWhateverIsRemoved(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var log []record.Record
		for i := range 1 + rnd.IntN(30) {
			r := record.String("", fmt.Sprint(rnd.IntN(5)), fmt.Sprint(i))
			if rnd.IntN(6) == 0 {
				r.Value = nil
				r.Headers = []record.Header{{Key: fmt.Sprint(i)}}
			}
			r.Offset = int64(i)
			log = append(log, r)
		}
		source, target := compacted(rnd, log), compacted(rnd, log)
		from := int64(rnd.IntN(len(log) + 1))
		var want []record.Record
		for _, r := range source {
			if r.Offset >= from {
				want = append(want, r)
			}
		}
		first, ok := align(entries(want), entries(target))
		require.True(t, ok, "seed %d", seed)
		if first < len(target) {
			require.GreaterOrEqual(t, target[first].Offset, from, "seed %d", seed)
		}
		require.Equal(t, state(want), state(target[first:]), "seed %d: a reader of the rest gets the same values", seed)

		if foreign := rnd.IntN(len(target) + 1); foreign >= first {
			with := append(append(append([]record.Record{}, target[:foreign]...), record.String("", "foreign", "")), target[foreign:]...)
			if begin, ok := align(entries(want), entries(with)); ok {
				require.Greater(t, begin, foreign, "seed %d: a foreign record is overlooked", seed)
			}
		}
	}
}
