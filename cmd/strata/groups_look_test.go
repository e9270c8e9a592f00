package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stratalog/strata/group"
)

// Checklist row LG2: deleted records do not count as lag, in groups of any protocol.
func TestDeletedRecordsAreNoLag(t *testing.T) {
	const start, end = 6, 10
	listed := func(offset int64) kadm.ListedOffsets {
		return kadm.ListedOffsets{"in": {0: {Topic: "in", Offset: offset}}}
	}
	for committed, want := range map[int64]int64{-1: 4, 2: 4, 6: 4, 8: 2, 10: 0, 50: 0} {
		require.Equal(t, want, group.PartitionLag(committed, start, end), "committed %d", committed)
		commit := kadm.Offset{Topic: "in", At: committed}
		l, err := lagOf(partitionOf{"in", 0}, kadm.OffsetResponses{"in": {0: {Offset: commit}}}, listed(start), listed(end))
		require.NoError(t, err)
		require.Equal(t, want, l.Lag, "committed %d", committed)
		tools := max(end-committed, 0) // the lag that kadm computes, like Kafka's tools
		seen := classicSeen(kadm.DescribedGroupLag{Group: "g", Lag: kadm.GroupLag{"in": {0: {
			Topic: "in", Commit: commit, Start: kadm.ListedOffset{Offset: start}, End: kadm.ListedOffset{Offset: end}, Lag: tools}}}})
		require.Equal(t, want, seen.Lag, "committed %d", committed)
		require.Equal(t, want, seen.parts[0].Lag, "committed %d", committed)
	}
}
