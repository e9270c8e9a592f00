package topic

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// ErrInvalidLoad is matched by errors for an impossible Load.
var ErrInvalidLoad = errors.New("topic: invalid load")

// Load describes the expected traffic of a topic. It determines the size of its segments.
type Load struct {
	RecordBytes      float64 // mean size in the log: compressed, with its share of the batch header
	RecordsPerSecond float64 // of the whole topic
	Partitions       int     // number of partitions with equal shares; 0 means 1
}

// Advice holds recommended segment settings for a Load.
type Advice struct {
	SegmentBytes int64         // segment.bytes
	SegmentAge   time.Duration // segment.ms
	Closes       time.Duration // time until one of the two settings closes a segment
	Late         time.Duration // longest time that a record stays after its retention; 0: kept for ever
	Segments     int           // segments of a partition in the long run; 0: growing, since nothing expires
}

// Properties returns the recommended settings by their Kafka keys.
func (a Advice) Properties() map[string]string {
	return map[string]string{
		"segment.bytes": strconv.FormatInt(a.SegmentBytes, 10),
		"segment.ms":    strconv.FormatInt(a.SegmentAge.Milliseconds(), 10),
	}
}

const (
	// retentionSteps is the number of steps in which records should expire: a record is kept a
	// twentieth longer than its retention, at most.
	retentionSteps = 20

	maxAdvisedBytes = 1 << 30 // Kafka's default; more only against too many segments
	maxSegmentBytes = math.MaxInt32
)

// Advise returns segment settings for a topic with settings s and load l.
//
// Records expire in whole closed segments, so a partition should have about twenty of them within
// its retention. segment.bytes is the volume of that twentieth, rounded up to a MiB, from 1 MiB (or
// the largest batch) to 1 GiB. segment.ms closes the segments of a partition with less traffic.
// Segments may be up to 2 GiB if a partition would otherwise have more than 1000. For a topic that
// keeps all records, or is only compacted, the result is Kafka's defaults. Advise only computes.
// Errors match ErrInvalidLoad.
func (s Settings) Advise(l Load) (Advice, error) {
	rate, err := l.rate()
	if err != nil {
		return Advice{}, err
	}
	kept := s.keeps(rate)
	if kept == forever {
		a := Advice{SegmentBytes: maxAdvisedBytes, SegmentAge: 7 * 24 * time.Hour}
		a.Closes = closesAfter(a.SegmentBytes, a.SegmentAge, rate)
		return a, nil
	}
	least := max(MinSegmentBytes, s.num("max.message.bytes"))
	bytes := min(max(rate*kept.Seconds()/retentionSteps, float64(least)), maxAdvisedBytes)
	bytes = max(bytes, min(rate*kept.Seconds()/manySegments, maxSegmentBytes))
	a := Advice{
		SegmentBytes: min((int64(bytes)+1<<20-1)>>20<<20, maxSegmentBytes),
		SegmentAge:   max((kept / retentionSteps).Truncate(time.Millisecond), time.Second),
	}
	a.Closes = closesAfter(a.SegmentBytes, a.SegmentAge, rate)
	a.Late, a.Segments = a.Closes, segmentsOf(kept, a.Closes)
	return a, nil
}

// WarningsUnder returns warnings about the segment settings for a topic with load l, which Warnings
// does not know. Errors match ErrInvalidLoad.
func (s Settings) WarningsUnder(l Load) ([]Warning, error) {
	rate, err := l.rate()
	if err != nil {
		return nil, err
	}
	kept := s.keeps(rate)
	if kept == forever {
		return nil, nil
	}
	key := "segment.bytes"
	if s.duration("segment.ms") <= fills(s.segmentBytes(), rate) {
		key = "segment.ms"
	}
	value, _ := s.Value(key)
	closes := closesAfter(s.segmentBytes(), s.duration("segment.ms"), rate)
	switch n := segmentsOf(kept, closes); {
	case closes > kept/4:
		return []Warning{{key, value, fmt.Sprintf("a segment closes after %v, so records may be kept that much longer than the %v asked for",
			round(closes), round(kept))}}, nil
	case n > manySegments:
		remedy := "larger segments make fewer files"
		if s.segmentBytes() > maxAdvisedBytes && key == "segment.bytes" {
			remedy = "more partitions share the load"
		}
		return []Warning{{key, value, fmt.Sprintf("a segment closes after %v, so each partition comes to hold %d of them; %s", round(closes), n, remedy)}}, nil
	}
	return nil, nil
}

// rate is the bytes that a partition gets in a second.
func (l Load) rate() (float64, error) {
	rate := l.RecordBytes * l.RecordsPerSecond / float64(max(l.Partitions, 1))
	if !(l.RecordBytes > 0) || !(l.RecordsPerSecond > 0) || l.Partitions < 0 || math.IsInf(rate, 0) {
		return 0, fmt.Errorf("%w: %v bytes a record, %v records/s, %d partitions", ErrInvalidLoad, l.RecordBytes, l.RecordsPerSecond, l.Partitions)
	}
	return rate, nil
}

// forever is longer than anything is kept.
const forever = time.Duration(math.MaxInt64)

// keeps is for how long a partition that gets rate bytes a second keeps a record, by retention.ms
// and retention.bytes.
func (s Settings) keeps(rate float64) time.Duration {
	if !s.Deleted() {
		return forever
	}
	kept := forever
	if ms := s.num("retention.ms"); ms >= 0 {
		kept = millis(ms)
	}
	if bytes := s.num("retention.bytes"); bytes >= 0 {
		kept = min(kept, fills(bytes, rate))
	}
	return kept
}

// fills is how long it takes until so many bytes have come.
func fills(bytes int64, rate float64) time.Duration {
	if ns := float64(bytes) / rate * float64(time.Second); ns < float64(forever) {
		return time.Duration(ns)
	}
	return forever
}

func closesAfter(bytes int64, age time.Duration, rate float64) time.Duration {
	return min(age, fills(bytes, rate))
}

// segmentsOf returns the number of segments for the kept records, with the active one.
func segmentsOf(kept, closes time.Duration) int {
	return int(min(int64(kept/max(closes, 1)), math.MaxInt32)) + 1
}

// round leaves about three digits of a duration.
func round(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Millisecond)
}
