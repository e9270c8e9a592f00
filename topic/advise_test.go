package topic

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, props map[string]string) Settings {
	t.Helper()
	s, err := Parse(props, nil)
	require.NoError(t, err)
	return s
}

func TestAdvisedSegmentsFollowRecordSizeRateAndRetention(t *testing.T) {
	day := map[string]string{"retention.ms": "86400000"}
	for name, c := range map[string]struct {
		props map[string]string
		load  Load
		want  Advice
	}{
		// 1000 B x 600/s / 6 = 100 kB/s: 432 MB in 72 minutes, a twentieth of a day
		"a day": {day, Load{1000, 600, 6}, Advice{SegmentBytes: 412 << 20, SegmentAge: 72 * time.Minute, Closes: 72 * time.Minute, Late: 72 * time.Minute, Segments: 21}},
		"twice the records": {day, Load{1000, 1200, 6}, Advice{
			SegmentBytes: 824 << 20, SegmentAge: 72 * time.Minute, Closes: 72 * time.Minute, Late: 72 * time.Minute, Segments: 21,
		}},
		"twice the size": {day, Load{2000, 600, 6}, Advice{
			SegmentBytes: 824 << 20, SegmentAge: 72 * time.Minute, Closes: 72 * time.Minute, Late: 72 * time.Minute, Segments: 21,
		}},
		"a trickle: age closes them": {day, Load{100, 1, 10}, Advice{
			SegmentBytes: 2 << 20, SegmentAge: 72 * time.Minute, Closes: 72 * time.Minute, Late: 72 * time.Minute, Segments: 21,
		}},
		"much: size closes them": {day, Load{1 << 10, 8 << 10, 1}, Advice{
			SegmentBytes: 1 << 30, SegmentAge: 72 * time.Minute, Closes: 128 * time.Second, Late: 128 * time.Second, Segments: 676,
		}},
		"so much that there would be 3375 of a GiB": {day, Load{1 << 10, 40 << 10, 1}, Advice{
			SegmentBytes: math.MaxInt32, SegmentAge: 72 * time.Minute, Closes: 51 * time.Second, Late: 51 * time.Second, Segments: 1688,
		}},
		"by bytes": {map[string]string{"retention.ms": "-1", "retention.bytes": "2097152000"}, Load{1 << 20, 1, 1}, Advice{
			SegmentBytes: 100 << 20, SegmentAge: 100 * time.Second, Closes: 100 * time.Second, Late: 100 * time.Second, Segments: 21,
		}},
		"kept for ever": {map[string]string{"retention.ms": "-1"}, Load{1 << 20, 1, 1}, Advice{
			SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, Closes: 1024 * time.Second,
		}},
		"compacted": {map[string]string{"cleanup.policy": "compact"}, Load{1 << 20, 1, 0}, Advice{
			SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, Closes: 1024 * time.Second,
		}},
	} {
		got, err := parsed(t, c.props).Advise(c.load)
		require.NoError(t, err, name)
		got.Closes, got.Late = got.Closes.Round(time.Second), got.Late.Round(time.Second)
		require.Equal(t, c.want, got, name)
	}
}

func TestAdviceIsTakenWithoutAWarningAndHoldsTheLargestBatch(t *testing.T) {
	for _, retention := range []string{"10000", "3600000", "604800000"} {
		for _, l := range []Load{{10, 0.1, 1}, {500, 100, 3}, {5000, 5000, 12}} {
			props := map[string]string{"retention.ms": retention, "max.message.bytes": "9000000"}
			a, err := parsed(t, props).Advise(l)
			require.NoError(t, err)
			require.GreaterOrEqual(t, a.SegmentBytes, int64(9000000))
			for k, v := range a.Properties() {
				props[k] = v
			}
			s := parsed(t, props)
			ws, err := s.WarningsUnder(l)
			require.NoError(t, err)
			require.Empty(t, ws, "retention %s, %+v: %+v", retention, l, a)
			require.Empty(t, s.Warnings(1))
		}
	}
}

func TestWarnsWhenSegmentsDoNotFitTheLoad(t *testing.T) {
	hour := map[string]string{"retention.ms": "3600000", "segment.ms": "3600000", "segment.bytes": "104857600"}
	ws, err := parsed(t, hour).WarningsUnder(Load{1000, 100, 1}) // 100 kB/s: 17 minutes
	require.NoError(t, err)
	require.Equal(t, []Warning{{
		"segment.bytes", "104857600", "a segment closes after 17m29s, so records may be kept that much longer than the 1h0m0s asked for",
	}}, ws)
	ws, err = parsed(t, hour).WarningsUnder(Load{1000, 1, 1})
	require.NoError(t, err)
	require.Equal(t, "segment.ms", ws[0].Key, "it closes segments that are never full")
	ws, err = parsed(t, hour).WarningsUnder(Load{1000, 1000, 1})
	require.NoError(t, err)
	require.Empty(t, ws)
	ws, err = parsed(t, map[string]string{"segment.bytes": "1048576"}).WarningsUnder(Load{1000, 1000, 1})
	require.NoError(t, err)
	require.Contains(t, ws[0].Advice, "larger segments make fewer files")
	ws, err = parsed(t, map[string]string{"segment.bytes": "2147483647"}).WarningsUnder(Load{1000, 100_000, 1})
	require.NoError(t, err)
	require.Contains(t, ws[0].Advice, "more partitions share the load", "there are no larger segments")
	ws, err = parsed(t, map[string]string{"cleanup.policy": "compact"}).WarningsUnder(Load{1000, 1, 1})
	require.NoError(t, err)
	require.Empty(t, ws, "nothing expires")
}

func TestImpossibleLoadsAreRefused(t *testing.T) {
	for _, l := range []Load{{}, {RecordBytes: 1}, {RecordsPerSecond: 1}, {-1, 1, 1}, {1, math.NaN(), 1}, {math.MaxFloat64, math.MaxFloat64, 1}, {1, 1, -1}} {
		_, err := Settings{}.Advise(l)
		require.ErrorIs(t, err, ErrInvalidLoad, "%+v", l)
		_, err = Settings{}.WarningsUnder(l)
		require.ErrorIs(t, err, ErrInvalidLoad, "%+v", l)
	}
}
