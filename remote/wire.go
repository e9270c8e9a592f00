package remote

import (
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// An index numbers the topics of a request in the order of their first partitions.
type index[K comparable] map[K]int

// of returns the number of a topic. first is true if it is new.
func (x index[K]) of(topic K) (i int, first bool) {
	i, ok := x[topic]
	if !ok {
		i = len(x)
		x[topic] = i
	}
	return i, !ok
}

// optional is nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// text is empty for nil.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func millis(d time.Duration) int32 { return int32(min(d.Milliseconds(), 1<<31-1)) }

// wireBytes is a bound of bytes; 0 and less mean none.
func wireBytes(n int) int32 {
	const most = 1 << 30
	if n <= 0 || n > most {
		return most
	}
	return int32(n)
}

func wireIsolation(i partition.Isolation) int8 {
	if i == partition.ReadCommitted {
		return 1
	}
	return 0
}

func wireAcks(a record.Acks) int16 {
	switch a {
	case record.AcksNone:
		return 0
	case record.AcksLeader:
		return 1
	}
	return -1
}
