package kafkadir

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stratalog/strata/record"
)

// Errors of Import and Export, for errors.Is.
var (
	// ErrInUse is returned if the directory is open, or if another Import or Export is creating the
	// same one.
	ErrInUse = errors.New("kafkadir: in use")
	// ErrForeign is returned if a directory is not a log directory of a Kafka broker, if it belongs
	// to another cluster or broker than the others, or if it is Strata's.
	ErrForeign = errors.New("kafkadir: not a log directory of this broker")
	// ErrDamaged is matched by every *DamagedError.
	ErrDamaged = errors.New("kafkadir: damaged")
	// ErrUnsupported is returned for data that Strata cannot read, such as batches from before
	// Kafka 0.11 or metadata of a later version.
	ErrUnsupported = errors.New("kafkadir: not supported")
	// ErrIncomplete is matched by every *IncompleteError.
	ErrIncomplete = errors.New("kafkadir: partitions are missing")
	// ErrUnknownTopic is returned for a requested topic that does not exist.
	ErrUnknownTopic = errors.New("kafkadir: unknown topic")
	// ErrBrokerMissing is returned by Export if the directory of a broker of the cluster is not in
	// ExportConfig.Dir.
	ErrBrokerMissing = errors.New("kafkadir: directory of a broker is missing")
)

// A DamagedError reports a file whose content is invalid. errors.Is(err, ErrDamaged) is true for
// it.
type DamagedError struct {
	Path   string
	Pos    int64 // byte position in Path; -1 means the whole file
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

// A MissingPartition is a partition that the source lacks completely or in part.
type MissingPartition struct {
	record.TopicPartition
	Reason string // "replicas on brokers [2 3]"
}

// An IncompleteError lists the missing partitions. errors.Is(err, ErrIncomplete) is true for it.
type IncompleteError struct{ Missing []MissingPartition }

// Error returns a text with the first few of them.
func (e *IncompleteError) Error() string {
	const most = 5
	var names []string
	for _, m := range e.Missing[:min(most, len(e.Missing))] {
		names = append(names, fmt.Sprintf("%s-%d (%s)", m.Topic, m.Partition, m.Reason))
	}
	if more := len(e.Missing) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("kafkadir: %d partitions are missing: %s", len(e.Missing), strings.Join(names, ", "))
}

// Unwrap returns ErrIncomplete.
func (e *IncompleteError) Unwrap() error { return ErrIncomplete }
