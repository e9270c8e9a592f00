package mirror

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// Errors that end a mirror, for errors.Is. All but ErrRunning are the cause of a *StopError.
var (
	// ErrNoPosition is returned when the target topic has records and the mirror has no position.
	// ForwardConfig.Start names the offsets to begin at.
	ErrNoPosition = errors.New("the target topic has records, but there is no position of this mirror (Start names the offsets to begin at)")
	// ErrBadPosition is returned for a position that this version cannot read, or of a mirror with
	// another target topic.
	ErrBadPosition = errors.New("the stored position is not one of this mirror")
	// ErrOtherSource is returned when the position belongs to another source cluster.
	ErrOtherSource = errors.New("the source is another cluster than before")
	// ErrTopicReplaced is returned when a topic was deleted, at the source or at the target, even
	// if it was created again. Topics of clusters without topic ids (Kafka before 2.8, Redpanda)
	// are only compared by name.
	ErrTopicReplaced = errors.New("the topic was deleted")
	// ErrGap is returned when the source has deleted records that were not forwarded, because of
	// its retention or DeleteRecords.
	ErrGap = errors.New("the source has deleted records that were not forwarded")
	// ErrTruncated is returned when the source has lost records that were forwarded, in an unclean
	// election or with its disk, or was restored from an older backup and has other records there.
	ErrTruncated = consumer.ErrTruncated
	// ErrUnsendable is returned for a record that the target does not accept, or a producer does
	// not send: it is too large (also producer.ErrMessageTooLarge), or its timestamp is outside the
	// target topic's bounds (also producer.ErrInvalidTimestamp), or the topic needs
	// a key (also producer.ErrInvalidRecord). The *StopError has its place at the source.
	ErrUnsendable = errors.New("the record cannot be sent to the target unchanged")

	// ErrFenced is returned when another mirror with the same ID has started.
	ErrFenced = producer.ErrFenced
	// ErrRunning is returned by Run, Drain and Cutover while another call of them is active.
	ErrRunning = errors.New("mirror: is running already")

	// ErrNoSource is returned by a Copy without a source.
	ErrNoSource = errors.New("mirror: the copy was opened without its source")
	// ErrPromoted is returned for a copy's directory that Promote has made a cluster's.
	ErrPromoted = errors.New("the copy is a cluster now: open it with strata.Open")
	// ErrDamagedCopy is returned for a copy's directory whose own files cannot be read.
	ErrDamagedCopy = errors.New("the copy is damaged")
)

// A StopError is the reason why a mirror has ended and will not continue without a decision. No
// record was left out or repeated.
type StopError struct {
	Mirror    string // the ID; of a Copy, its directory
	Topic     string // of the source, or of the target where Err concerns that
	Partition int32  // -1: the whole topic
	Offset    int64  // the mirror's position in the source; -1: none
	Err       error  // matches one of the package's errors
}

func (e *StopError) Error() string {
	place := e.Topic
	if e.Partition >= 0 {
		place = fmt.Sprintf("%s-%d", e.Topic, e.Partition)
	}
	if e.Offset >= 0 {
		place = fmt.Sprintf("%s at offset %d", place, e.Offset)
	}
	return fmt.Sprintf("mirror %q: %s: %v", e.Mirror, place, e.Err)
}

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Err }

// isFinal reports whether a repetition cannot resolve err. Other errors are retried.
func isFinal(err error) bool {
	if errors.Is(err, producer.ErrFatal) || retriable.Final(err) {
		return true
	}
	if again, decided := retriable.Of(err); decided && again {
		return false
	}
	for _, never := range []error{
		replication.ErrClosed, consumer.ErrClosed, producer.ErrClosed, producer.ErrMessageTooLarge, producer.ErrInvalidTimestamp,
		producer.ErrInvalidRecord, record.ErrCorrupt, transaction.ErrInvalidID, transaction.ErrInvalidTimeout, replication.ErrInvalidTopic,
		replication.ErrInvalidReplicationFactor, replication.ErrPolicyViolation,
	} {
		if errors.Is(err, never) {
			return true
		}
	}
	var (
		stop *StopError
		tce  *topic.ConfigError
		cce  *consumer.ConfigError
		pce  *producer.ConfigError
	)
	return errors.As(err, &stop) || errors.As(err, &tce) || errors.As(err, &cce) || errors.As(err, &pce)
}
