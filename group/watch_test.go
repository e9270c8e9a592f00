package group

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// slowTopics is a Store with many topics: reading all of them takes a while.
type slowTopics struct {
	*fakeStore
	takes time.Duration
	reads atomic.Int64
}

func (s *slowTopics) Topics(ctx context.Context, names ...string) (Topics, error) {
	if len(names) == 0 {
		s.reads.Add(1)
		time.Sleep(s.takes)
	}
	return s.fakeStore.Topics(ctx, names...)
}

// The cost of creating topics one after the other must not grow with the square of their number.
// The watcher spends a tenth of the time reading all topics, and in the end it has the last of
// them.
func TestReadingAllTopicsTakesATenthOfTheTime(t *testing.T) {
	s := &slowTopics{fakeStore: newFakeStore(map[string]int32{"t": 1}), takes: 5 * time.Millisecond}
	inBubble(t, s, Config{}, func(t *testing.T, c *Coordinator) {
		time.Sleep(time.Second)
		before := s.reads.Load()
		for i := range 1000 {
			s.set(fmt.Sprintf("new-%d", i), TopicInfo{ID: [16]byte{1, byte(i), byte(i >> 8)}, Partitions: 1})
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, s.reads.Load()-before, int64(21), "reads of 5 ms in a second")
		time.Sleep(time.Second)
		require.Len(t, c.topics.Load().Topics, 1001)

		s.set("alone", TopicInfo{ID: [16]byte{2}, Partitions: 1}) // read without a wait
		time.Sleep(s.takes)
		synctest.Wait()
		require.Len(t, c.topics.Load().Topics, 1002)
	})
}

// A topic that the watcher has not read yet exists nevertheless: commits are accepted. The offsets
// of a topic that was created and deleted between two reads are deleted.
func TestTopicThatComesAndGoesBetweenTwoReadsTakesItsOffsetsAlong(t *testing.T) {
	s := &slowTopics{fakeStore: newFakeStore(map[string]int32{"t": 1}), takes: time.Second}
	inBubble(t, s, Config{}, func(t *testing.T, c *Coordinator) {
		time.Sleep(2 * time.Second)
		s.set("first", TopicInfo{ID: [16]byte{8}, Partitions: 1})
		time.Sleep(2 * time.Second) // it is read; the next read is some time away
		reads := s.reads.Load()
		s.set("short", TopicInfo{ID: [16]byte{9}, Partitions: 1})
		tp := record.TopicPartition{Topic: "short"}
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1, tp: 7}))
		s.set("short", TopicInfo{})
		require.Equal(t, reads, s.reads.Load())
		time.Sleep(time.Minute)
		got, err := c.FetchOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Len(t, got, 1)
	})
}

// Generations of groups of either protocol are notified, to hooks too, until the caller stops the
// notification.
func TestWhoIsNotifiedOfGenerationsIsUntilItStops(t *testing.T) {
	var hooked []Rebalanced
	cfg := Config{Hooks: Hooks{OnRebalanced: func(r Rebalanced) { hooked = append(hooked, r) }}}
	inBubble(t, newFakeStore(map[string]int32{"t": 2}), cfg, func(t *testing.T, c *Coordinator) {
		first, second := make(chan struct{}, 1), make(chan struct{}, 1)
		stop := c.NotifyRebalanced("g", first)
		defer c.NotifyRebalanced("g", second)()
		join := func(id string) {
			_, err := c.ConsumerHeartbeat(t.Context(), ConsumerHeartbeatRequest{Group: "g", MemberID: id, RebalanceTimeout: time.Minute, SubscribedTopics: []string{"t"}, Owned: []offsets.TopicIDPartitions{}})
			require.NoError(t, err)
			synctest.Wait()
		}
		join("m1")
		require.Len(t, first, 1)
		require.Len(t, second, 1)
		require.Len(t, hooked, 1)
		require.Equal(t, Rebalanced{Group: "g", Generation: 2, Members: 1, Protocol: "uniform"}, hooked[0])
		<-first
		stop()
		time.Sleep(2 * time.Second)
		join("m2") // the channel second is full, and delays no other receiver
		require.Len(t, hooked, 2)
		require.Empty(t, first)
		require.Len(t, c.waiting, 1)
	})
}
