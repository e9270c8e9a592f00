package replication

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Checklist row L4: the syncs that a new partition's first record waits for. Time is not measured.
func TestFirstRecordOfAPartitionCostsFewSyncs(t *testing.T) {
	cost := func(partitions int) (syncs, files float64) {
		fsys := vfs.Mem()
		c, err := Open(Config{Dir: "data", FS: fsys})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "big", topic.Config{Partitions: partitions}))
		s, n := fsys.Count(vfs.OpSync|vfs.OpSyncDir), fsys.Count(vfs.OpCreate)
		for i := range int32(partitions) { // in turn: concurrent ones share syncs, in another file
			require.NoError(t, produce(t, c, at("big", i), "first").Err)
		}
		syncs, files = float64(fsys.Count(vfs.OpSync|vfs.OpSyncDir)-s), float64(fsys.Count(vfs.OpCreate)-n)
		require.NoError(t, c.Close())
		return syncs, files
	}
	s1, f1 := cost(10)
	s2, f2 := cost(60)
	t.Logf("each partition: %.1f syncs, %.1f files", (s2-s1)/50, (f2-f1)/50)
	require.LessOrEqual(t, (s2-s1)/50, 6.0, "syncs")
	require.LessOrEqual(t, (f2-f1)/50, 3.0, "files")
}

func TestTopicsCreatedTogetherAreWrittenTogether(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{Dir: "data", FS: fsys, MaxPartitions: 150})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "old", topic.Config{Partitions: 10}))
	awaitFounding(c)
	var specs []TopicSpec
	for i := range 100 {
		specs = append(specs, TopicSpec{Name: fmt.Sprintf("new-%d", i), Config: topic.Config{Partitions: 1}})
	}
	specs = append(specs, TopicSpec{Name: "old"}, TopicSpec{Name: "a.b"}, TopicSpec{Name: "a_b"}, TopicSpec{Name: "new-7"},
		TopicSpec{Name: "large", Config: topic.Config{Partitions: 50}}, TopicSpec{Name: "fits", Config: topic.Config{Partitions: 39}}, TopicSpec{Name: "no name"})
	before := fsys.Count(vfs.OpSync | vfs.OpSyncDir)
	errs := c.CreateTopics(t.Context(), specs)
	require.EqualValues(t, 1, fsys.Count(vfs.OpSync|vfs.OpSyncDir)-before)
	require.Len(t, errs, len(specs))
	for i, err := range errs {
		want := map[string]error{"old": ErrTopicExists, "a_b": ErrInvalidTopic, "large": ErrPolicyViolation, "no name": ErrInvalidTopic}[specs[i].Name]
		if i == 103 {
			want = ErrTopicExists // given twice
		}
		if want == nil {
			require.NoError(t, err, specs[i].Name)
		} else {
			require.ErrorIs(t, err, want, specs[i].Name)
			require.ErrorContains(t, err, specs[i].Name)
		}
	}

	// Acknowledged topics are there after a power cut. The others are not.
	for seed := range uint64(5) {
		again := open(t, fsys.Crash(seed))
		infos, err := again.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, infos, 103, "100, old, a.b and fits")
		require.NoError(t, again.Close())
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.CreateTopics(ctx, specs[:2]) {
		require.True(t, errors.Is(err, ErrTopicExists))
	}
	for _, err := range c.CreateTopics(ctx, []TopicSpec{{Name: "x"}, {Name: "y"}}) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, c.Close())
}
