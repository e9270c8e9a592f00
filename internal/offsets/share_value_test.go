package offsets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// shareRecords calls f with every record of two partitions of an offsets topic in which a real
// Kafka kept share groups.
func shareRecords(t testing.TB, f func(r record.Record)) {
	files, err := filepath.Glob("testdata/share-groups*.log")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, name := range files {
		p, err := os.ReadFile(name)
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				f(r)
			}
			p = p[n:]
		}
	}
}

// Checklist row S15.
func TestRecordsOfShareGroupsAreThoseOfKafka(t *testing.T) {
	seen := map[KeyType]int{}
	shareRecords(t, func(r record.Record) {
		rec, known, err := ParseRecord(r.Key, r.Value)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, r.Key, rec.Key.AppendTo(nil))
		if r.Value == nil {
			require.True(t, rec.Tombstone())
			return
		}
		seen[rec.Key.Type]++
		require.Equal(t, r.Value, rec.AppendValue(nil), "key type %d", rec.Key.Type)
		switch v := rec.Value.(type) {
		case *ShareMemberValue:
			require.Len(t, v.Topics, 1)
			require.Equal(t, "/127.0.0.1", v.ClientHost)
		case *ShareGroupValue:
			require.Positive(t, v.Epoch)
		case *ShareStatesValue:
			for _, s := range append(v.Initializing, v.Initialized...) {
				require.NotEmpty(t, s.Partitions)
			}
		case *ShareCurrentAssignmentValue:
			require.Greater(t, v.MemberEpoch, v.PreviousMemberEpoch)
		}
	})
	for _, typ := range []KeyType{KeyShareMember, KeyShareGroup, KeyShareTarget, KeyShareTargetMember, KeyShareCurrentAssignment, KeyShareStates} {
		require.NotZero(t, seen[typ], "key type %d", typ)
	}
	t.Log(seen)
}
