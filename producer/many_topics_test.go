package producer

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
)

// slowMetadata is a Backend that needs some time to describe several topics.
type slowMetadata struct {
	*fake
	takes time.Duration
	reads atomic.Int64
}

func (s *slowMetadata) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	if len(topics) > 1 {
		s.reads.Add(1)
		time.Sleep(s.takes)
	}
	return s.fake.Metadata(ctx, topics...)
}

func TestFollowingTheTopicsInUseTakesATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowMetadata{fake: newFake(map[string]int{"a": 1, "b": 1}), takes: 5 * time.Millisecond}
		p := newProducer(t, s, Config{})
		_, err := p.Send(t.Context(), value("a", 0), value("b", 0))
		require.NoError(t, err)
		time.Sleep(time.Second)
		before := s.reads.Load()
		for i := range 1000 {
			s.grow(fmt.Sprint("new ", i), 1)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, s.reads.Load()-before, int64(21), "reads of 5 ms in a second")
		time.Sleep(time.Second)

		s.grow("a", 3) // the next read starts at once
		time.Sleep(s.takes)
		synctest.Wait()
		require.Len(t, p.topics.get("a").view.Load().parts, 3)
		require.NoError(t, p.Close())
	})
}

func TestFollowingASlowBackendRestsShortly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowMetadata{fake: newFake(map[string]int{"a": 1, "b": 1}), takes: time.Second}
		p := newProducer(t, s, Config{})
		_, err := p.Send(t.Context(), value("a", 0), value("b", 0))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s.grow("a", 2)
		time.Sleep(s.takes + time.Millisecond)
		s.grow("a", 3) // after the end of a read; the next one starts after a pause
		time.Sleep(s.takes + maxFollowRest)
		synctest.Wait()
		require.Len(t, p.topics.get("a").view.Load().parts, 3)
		require.NoError(t, p.Close())
	})
}

func TestTopicTableHasEveryTopicOnceAndLookingTakesNoMemory(t *testing.T) {
	var tt topicTable
	require.Nil(t, tt.get("none"))
	require.Zero(t, tt.count())
	want := map[string]*topicParts{}
	for i := range 3*newTopics + 7 {
		before := tt.count()
		earlier := tt.all()
		added := &topicParts{name: fmt.Sprint("topic ", i)}
		want[added.name] = added
		tt.addLocked(added)
		require.Equal(t, before+1, tt.count())
		require.Len(t, slices.Collect(earlier), before, "what was asked before does not change")
		for name, topic := range want {
			require.Same(t, topic, tt.get(name))
		}
		require.ElementsMatch(t, slices.Collect(maps.Values(want)), slices.Collect(tt.all()))
	}
	require.Nil(t, tt.get("none"))
	require.Zero(t, testing.AllocsPerRun(100, func() { tt.get("topic 1"); tt.get("topic 198") }))
}

func TestAddingTopicsTakesMemoryInProportion(t *testing.T) {
	const n = 2000
	names := make([]*topicParts, n)
	for i := range names {
		names[i] = &topicParts{name: fmt.Sprint("topic ", i)}
	}
	var tt topicTable
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, topic := range names {
		tt.addLocked(topic)
	}
	runtime.ReadMemStats(&after)
	// with a map for each it was 150 MB
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*10_000))
	require.Equal(t, n, tt.count())
}
