package kafkatest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestFilledRecordsAreReadBackWithAllTheyHave(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"orders": 3}})
	at := time.UnixMilli(1_700_000_000_123)
	s.Fill("orders",
		record.Record{Key: []byte("k"), Value: []byte("b"), Timestamp: at, Headers: []record.Header{{Key: "h", Value: []byte("1")}, {Key: "h"}}}.To(2),
		record.String("orders", "", "a").To(0),
		record.Record{Value: nil, Key: []byte("tombstone")}.To(2))
	got := s.Topic("orders")
	require.Len(t, got, 3)
	require.Equal(t, []int32{0, 2, 2}, []int32{got[0].Partition, got[1].Partition, got[2].Partition})
	require.Equal(t, []int64{0, 0, 1}, []int64{got[0].Offset, got[1].Offset, got[2].Offset})
	require.Equal(t, "orders", got[1].Topic)
	require.True(t, at.Equal(got[1].Timestamp))
	require.Equal(t, []record.Header{{Key: "h", Value: []byte("1")}, {Key: "h"}}, got[1].Headers)
	require.Nil(t, got[0].Key)
	require.Nil(t, got[2].Value)
	require.WithinDuration(t, time.Now(), got[0].Timestamp, time.Minute)
}

func TestTopicReadsMoreThanOneFetchHolds(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"big": 2}})
	var rs []record.Record
	for i := range 40 {
		rs = append(rs, record.Record{Value: make([]byte, 100<<10)}.To(int32(i%2)))
	}
	s.Fill("big", rs...)
	got := s.Topic("big")
	require.Len(t, got, 40)
	for i, r := range got {
		require.Equal(t, int64(i%20), r.Offset)
	}
}

func TestDeletedRecordsAreLeftOut(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
	s.Fill("a", record.String("a", "", "1"), record.String("a", "", "2"), record.String("a", "", "3"))
	_, err := s.Cluster().DeleteRecords(t.Context(), map[record.TopicPartition]int64{{Topic: "a"}: 2})
	require.NoError(t, err)
	got := s.Topic("a")
	require.Len(t, got, 1)
	require.Equal(t, "3", string(got[0].Value))
}

func TestWaitRecordsWaitsForTopicPartitionsAndRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true})
		go func() {
			time.Sleep(time.Minute)
			if err := s.Cluster().CreateTopic(t.Context(), "late", topic.Config{Partitions: 1}); err != nil {
				t.Error(err)
			}
			for i := range 3 {
				time.Sleep(time.Minute)
				s.Fill("late", record.String("late", "", fmt.Sprint(i)))
			}
			time.Sleep(time.Minute)
			if err := s.Cluster().AddPartitions(t.Context(), "late", 2); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			s.Fill("late", record.String("late", "", "3").To(1))
		}()
		start := time.Now()
		require.Len(t, s.WaitRecords("late", 2), 2)
		require.Equal(t, 3*time.Minute, time.Since(start).Round(time.Second))
		got := s.WaitRecords("late", 4)
		require.Equal(t, "3", string(got[3].Value))
		require.Equal(t, 6*time.Minute, time.Since(start).Round(time.Second))
	})
}

func TestWaitRecordsSaysWhatThereIs(t *testing.T) {
	for name, c := range map[string]struct {
		topics map[string]int
		says   []string
	}{
		"no topic":    {nil, []string{"waiting for 2 records of a", "it has 0: no such topic", "0 requests so far"}},
		"one too few": {map[string]int{"a": 2}, []string{"waiting for 2 records of a", "it has 1: read up to (partition:offset) 0:0 1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeT{}
			said := f.run(func() {
				s := New(f, Config{Pipe: true, Topics: c.topics, WaitTimeout: 50 * time.Millisecond})
				if c.topics != nil {
					s.Fill("a", record.String("a", "", "x").To(1))
				}
				s.WaitRecords("a", 2)
			})
			for _, says := range c.says {
				require.Contains(t, said, says)
			}
		})
	}
}

func TestFillAndTopicFailForUnknownTopics(t *testing.T) {
	f := &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Pipe: true}).Topic("nope") }), "read nope")
	f = &fakeT{}
	require.Contains(t, f.run(func() {
		New(f, Config{Pipe: true, WaitTimeout: 50 * time.Millisecond}).Fill("nope", record.String("nope", "", "x"))
	}), "fill nope")
	f = &fakeT{}
	require.Contains(t, f.run(func() {
		New(f, Config{Pipe: true, Topics: map[string]int{"a": 1}}).Fill("a", record.String("b", "", "x"))
	}), "record 0 is for topic b")
}
