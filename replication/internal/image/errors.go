package image

import (
	"errors"
	"fmt"
)

// Reasons why a command is rejected, for errors.Is. Package replication returns them to its
// callers.
var (
	ErrUnknownTopic             = errors.New("replication: unknown topic or partition")
	ErrTopicExists              = errors.New("replication: topic exists already")
	ErrTopicIDInUse             = errors.New("replication: topic id is in use")
	ErrInvalidPartitions        = errors.New("replication: invalid number of partitions")
	ErrInvalidReplicationFactor = errors.New("replication: invalid replication factor")
	ErrInvalidAssignment        = errors.New("replication: invalid assignment of replicas")
	ErrUnknownBroker            = errors.New("replication: unknown broker")
)

// ErrLaterRecord is returned for a record that can be read, but has no meaning in this version.
var ErrLaterRecord = errors.New("a record that this version does not write")

// A PolicyError rejects a well-formed command. Kafka: POLICY_VIOLATION.
type PolicyError struct{ Reason string }

func (e *PolicyError) Error() string { return e.Reason }

func policy(format string, args ...any) error {
	return &PolicyError{Reason: fmt.Sprintf(format, args...)}
}

// An UnknownTopicError reports a topic that does not exist. errors.Is(err, ErrUnknownTopic) is true
// for it.
type UnknownTopicError struct{ Topic string }

func (e *UnknownTopicError) Error() string { return fmt.Sprintf("%v: %q", ErrUnknownTopic, e.Topic) }

// Unwrap returns ErrUnknownTopic.
func (e *UnknownTopicError) Unwrap() error { return ErrUnknownTopic }
