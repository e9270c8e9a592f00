package topic

import (
	"context"
	"log/slog"
	"strconv"
)

// A Warning names a setting that is accepted but usually a mistake.
type Warning struct {
	Key    string
	Value  string
	Advice string
}

// manySegments is the greatest number of segments of a partition without a warning, as computed
// from the settings of retention and segments.
const manySegments = 1000

// Warnings returns warnings about the settings of a topic with the given number of replicas.
func (s Settings) Warnings(replicas int) []Warning {
	var ws []Warning
	add := func(key, advice string) {
		v, _ := s.Value(key)
		ws = append(ws, Warning{Key: key, Value: v, Advice: advice})
	}
	if min := s.num("min.insync.replicas"); replicas > 1 && min >= int64(replicas) {
		add("min.insync.replicas", "the loss of one broker stops all writes with acks=all; one less than the "+strconv.Itoa(replicas)+" replicas is recommended")
	}
	if !s.Deleted() {
		return ws
	}
	// Retention removes whole closed segments: large segments make it coarse, small ones make many
	// files.
	segmentMs, retentionMs := s.num("segment.ms"), s.num("retention.ms")
	longest := max(millis(retentionMs), millis(segmentMs)+millis(retentionMs)) // the sum may overflow
	switch {
	case retentionMs < 0:
	case segmentMs > retentionMs || segmentMs > retentionMs/2 && s.isSet("retention.ms"):
		add("segment.ms", "retention removes whole closed segments, so a record may be kept for up to "+
			longest.String()+"; with a smaller segment.ms it is removed closer to retention.ms")
	case retentionMs/segmentMs > manySegments:
		add("segment.ms", "each partition may come to hold over "+strconv.Itoa(manySegments)+" segments; larger segments make fewer files")
	}
	segment, retention := s.segmentBytes(), s.num("retention.bytes")
	switch {
	case retention < 0:
	case segment > retention:
		add("segment.bytes", "retention removes whole closed segments, so a partition may grow well beyond retention.bytes; with a smaller segment.bytes it stays closer to it")
	case retention/segment > manySegments:
		add("segment.bytes", "each partition may come to hold over "+strconv.Itoa(manySegments)+" segments; larger segments make fewer files")
	}
	return ws
}

// Warn writes the warnings to logger, one line each.
func (s Settings) Warn(logger *slog.Logger, topic string, replicas int) {
	for _, w := range s.Warnings(replicas) {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "topic configuration",
			slog.String("topic", topic), slog.String("key", w.Key), slog.String("value", w.Value), slog.String("advice", w.Advice))
	}
}

// segmentBytes is the size at which segments close.
func (s Settings) segmentBytes() int64 {
	if s.isSet("internal.segment.bytes") {
		return s.num("internal.segment.bytes")
	}
	return s.num("segment.bytes")
}
