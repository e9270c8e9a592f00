package kafkadir

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stratalog/strata/record"
)

// Errors of Import and Export, for errors.Is.
var (
	// ErrInUse says that somebody has the directory open, or that another Import or Export is
	// making the same one.
	ErrInUse = errors.New("kafkadir: in use")
	// ErrForeign says that a directory is not what it should be: no log directory of a Kafka
	// broker, one of another cluster or broker than the others, one of Strata.
	ErrForeign = errors.New("kafkadir: not a log directory of this broker")
	// ErrDamaged is matched by every *DamagedError.
	ErrDamaged = errors.New("kafkadir: damaged")
	// ErrUnsupported says that a directory has something that Strata cannot read, as batches of
	// before Kafka 0.11 or metadata of a later version.
	ErrUnsupported = errors.New("kafkadir: not supported")
	// ErrIncomplete is matched by every *IncompleteError.
	ErrIncomplete = errors.New("kafkadir: partitions are not there")
	// ErrUnknownTopic says that there is no topic of a name that was asked for.
	ErrUnknownTopic = errors.New("kafkadir: unknown topic")
	// ErrSeveralBrokers says that a cluster of several brokers was to be exported.
	ErrSeveralBrokers = errors.New("kafkadir: cluster of several brokers")
)

// A DamagedError reports a file whose content is not valid. errors.Is(err, ErrDamaged) is true.
type DamagedError struct {
	Path   string
	Pos    int64 // byte position in Path; -1: the file as a whole
	Reason string
}

func (e *DamagedError) Error() string {
	if e.Pos < 0 {
		return fmt.Sprintf("kafkadir: %s is damaged: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("kafkadir: %s is damaged at byte %d: %s", e.Path, e.Pos, e.Reason)
}

// Unwrap returns ErrDamaged.
func (e *DamagedError) Unwrap() error { return ErrDamaged }

// damaged returns a *DamagedError about a whole file.
func damaged(path, format string, args ...any) error {
	return &DamagedError{Path: path, Pos: -1, Reason: fmt.Sprintf(format, args...)}
}

// A MissingPartition is a partition that the source does not have, or not all of.
type MissingPartition struct {
	record.TopicPartition
	Reason string // "replicas on brokers [2 3]"
}

// An IncompleteError lists the partitions that are not there. errors.Is(err, ErrIncomplete) is
// true.
type IncompleteError struct{ Missing []MissingPartition }

// Error names the first few of them.
func (e *IncompleteError) Error() string {
	const most = 5
	var names []string
	for _, m := range e.Missing[:min(most, len(e.Missing))] {
		names = append(names, fmt.Sprintf("%s-%d (%s)", m.Topic, m.Partition, m.Reason))
	}
	if more := len(e.Missing) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("kafkadir: %d partitions are not there: %s", len(e.Missing), strings.Join(names, ", "))
}

// Unwrap returns ErrIncomplete.
func (e *IncompleteError) Unwrap() error { return ErrIncomplete }
