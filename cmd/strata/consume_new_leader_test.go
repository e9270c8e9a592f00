package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

// A new leader has no high watermark yet, and answers OFFSET_NOT_AVAILABLE.
func TestConsumeWaitsForTheOffsetsOfANewLeader(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 2}})
	s.Fill("orders", record.String("", "k", "a").To(0), record.String("", "k", "b").To(1))
	for _, args := range [][]string{
		{"consume", "orders", "--values"}, {"consume", "orders", "--values", "--last", "1"}, {"consume", "orders", "--values", "--from", "0"},
	} {
		for skip := range 3 {
			fault := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ListOffsets}, Topic: "orders", Partitions: []int32{0}, Skip: skip, Times: 2, Code: kafka.OffsetNotAvailable})
			r := strataRun(t, append(args, "-b", s.Addrs()[0])...)
			require.Equal(t, exitOK, r.code, r.err)
			require.ElementsMatch(t, []byte("a\nb\n"), []byte(r.out), args)
			fault.Remove()
		}
	}
	s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ListOffsets}, Topic: "orders", Partitions: []int32{0}, Times: 1 << 30, Code: kafka.OffsetNotAvailable})
	r := strataRun(t, "consume", "orders", "--timeout", "300ms", "-b", s.Addrs()[0])
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.out)
	require.Contains(t, r.err, "orders-0: OFFSET_NOT_AVAILABLE")
}
