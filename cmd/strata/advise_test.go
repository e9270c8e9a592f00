package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdviceOnSegmentsFollowsRecordSizeAndRate(t *testing.T) {
	p := start(t, "--memory")
	b := func(args ...string) result { return strataRun(t, append(args, "-b", p.addr)...) }
	require.Equal(t, exitOK, b("topics", "create", "orders", "--partitions", "2", "--set", "retention.ms=86400000").code)
	r := b("topics", "advise", "orders")
	require.Equal(t, exitMisuse, r.code)
	require.Contains(t, r.err, "too few records to measure: give --record-bytes and --rate")

	// 2 records/s of a kilobyte, until now.
	var in strings.Builder
	begun := time.Now()
	for i := range 400 {
		fmt.Fprintf(&in, `{"value":%q,"partition":%d,"timestamp":%d}`+"\n", strings.Repeat("x", 1000), i%2, begun.Add(time.Duration(i-400)*500*time.Millisecond).UnixMilli())
	}
	require.Equal(t, exitOK, strataIn(t, in.String(), "produce", "orders", "--input", "json", "-b", p.addr).code)
	r = b("topics", "advise", "orders", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	var got adviceLine
	require.NoError(t, json.Unmarshal([]byte(r.out), &got))
	require.Equal(t, 2, got.Partitions)
	// Small batches add more header bytes to each record. The size of batches depends on the
	// producer's pace.
	require.InDelta(t, 1040, got.RecordBytes, 40)
	require.InEpsilon(t, 2*200/(200+time.Since(begun).Seconds()), got.Rate, 0.1)
	require.Equal(t, map[string]string{"segment.bytes": "5242880", "segment.ms": "4320000"}, got.Settings, "4.2 MiB in a twentieth of a day")
	require.Equal(t, int64(4320000), got.LateMs)
	require.Contains(t, got.Warnings[0], "segment.ms=604800000: a segment closes after 168h0m0s")

	r = b("topics", "advise", "orders", "--rate", "1200", "--record-bytes", "1000")
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, `orders: 1200 records/s of 1000 bytes over 2 partitions
  segment.bytes=1073741824
  segment.ms=4320000
  a segment closes after 29m50s: 49 segments per partition, records are kept up to 29m50s longer than the retention
`, r.out)
	require.Equal(t, exitOK, b("topics", "alter", "orders", "--set", "segment.ms=4320000", "--set", "segment.bytes=5242880").code)
	r = b("topics", "advise", "orders")
	require.NotContains(t, r.out, "now segment", "the advice was taken")
	require.Equal(t, exitFailed, b("topics", "advise", "nothing").code)
	require.Equal(t, exitMisuse, b("topics", "advise", "orders", "--rate", "-1").code)
}
