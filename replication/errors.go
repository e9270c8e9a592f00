package replication

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
)

// Errors of a cluster, for errors.Is; the returned errors add the topic and the numbers. Errors of
// a partition (package partition) and of a configuration (*topic.ConfigError) come through as they
// are.
var (
	ErrClosed = errors.New("replication: cluster is closed")
	// ErrUnknownTopic is matched by *UnknownTopicError.
	ErrUnknownTopic = image.ErrUnknownTopic
	ErrTopicExists  = image.ErrTopicExists
	// ErrTopicIDInUse refuses a topic whose id another topic has, or had, or none can have.
	ErrTopicIDInUse             = image.ErrTopicIDInUse
	ErrInvalidPartitions        = image.ErrInvalidPartitions
	ErrInvalidReplicationFactor = image.ErrInvalidReplicationFactor
	ErrInvalidAssignment        = image.ErrInvalidAssignment
	ErrTooManyBrokers           = errors.New("replication: too many brokers")
	ErrUnknownBroker            = image.ErrUnknownBroker

	// ErrInvalidElectionType is what ElectLeaders says of a type that there is not.
	ErrInvalidElectionType = errors.New("replication: no such type of election")

	// Why ElectLeaders elects nobody: the leader is the one that is asked for, it cannot lead, or
	// nobody can.
	ErrElectionNotNeeded           = image.ErrElectionNotNeeded
	ErrPreferredLeaderNotAvailable = image.ErrPreferredLeaderNotAvailable
	ErrEligibleLeadersNotAvailable = image.ErrEligibleLeadersNotAvailable
	// ErrNotInSync: TransferLeader is asked for a leader that is not in sync, or does not serve.
	ErrNotInSync = image.ErrNotInSync

	// ErrSharedDirectory refuses two brokers in one directory, and one inside of another's.
	ErrSharedDirectory = errors.New("replication: two brokers in one directory")
	// ErrBrokerExists refuses to add a broker that the cluster has.
	ErrBrokerExists = errors.New("replication: broker exists already")
	// ErrHoldsReplicas is matched by *ReplicasError.
	ErrHoldsReplicas = errors.New("replication: broker has replicas")
	// ErrBrokerRunning refuses to start a broker that runs, or is just starting or ending.
	ErrBrokerRunning = errors.New("replication: broker is running")
	// ErrBrokerDown refuses to stop or kill a broker that does not run.
	ErrBrokerDown = errors.New("replication: broker is not running")
	// ErrLastBroker refuses to end the last broker that serves: the metadata would be
	// nowhere. Close the cluster instead.
	ErrLastBroker = errors.New("replication: last broker that serves")

	// ErrMetadataReadOnly says that so many copies of the metadata failed in a change that nobody
	// can tell what became of it: it may have happened. Later changes open the copies again. They
	// have not happened if they get it too, as long as no majority of the copies works; the error
	// says whose disk fails, and with what. Kafka: the quorum of controllers has no majority.
	ErrMetadataReadOnly = metalog.ErrReadOnly

	// ErrInvalidTopic is topic.ErrInvalidName: no such topic can exist.
	ErrInvalidTopic = topic.ErrInvalidName
	// ErrNotLeader is partition.ErrNotLeader: the partition is led elsewhere, or by nobody;
	// metadata tells. Nothing was appended. It is told from partition.ErrNotLeaderAfterAppend.
	ErrNotLeader = partition.ErrNotLeader
	// ErrPolicyViolation is partition.ErrPolicyViolation: the request is well-formed but not
	// allowed here.
	ErrPolicyViolation = partition.ErrPolicyViolation
)

// Reasons of a DirectoryError.
var (
	// ErrLocked: this process or another has it open.
	ErrLocked = metalog.ErrLocked
	// ErrNewerFormat: newer than this version writes.
	ErrNewerFormat = metalog.ErrNewerFormat
	// ErrDamaged: what every broker needs is not what was written. A disk that fails is not damage.
	ErrDamaged = metalog.ErrDamaged
	// ErrForeign: it holds files, but not ours.
	ErrForeign = errors.New("replication: directory belongs to another program")
)

// Further reasons of a DirectoryError.
var (
	// ErrUnfinished: the directory is a backup that was interrupted.
	ErrUnfinished = errors.New("replication: directory is an unfinished backup")
	// ErrMixed: the directory and that of another broker are of different clusters.
	ErrMixed = errors.New("replication: directories are of different clusters")
	// ErrMissing: the cluster cannot do without the directory.
	ErrMissing = errors.New("replication: directory of a broker is missing")
	// ErrDiskReplaced: the broker had files, and its directory has none. What it had may be lost.
	ErrDiskReplaced = errors.New("replication: directory of a broker has come back empty")
)

// A DirectoryError says why a cluster's directory cannot be opened and what can be done. Nothing in
// the directory was changed; but where the metadata had to be read to find out, as for ErrMissing,
// its copies were recovered and closed in order, as by any open after a kill.
type DirectoryError struct {
	Dir string
	// Reason is ErrLocked, ErrNewerFormat, ErrDamaged, ErrForeign or
	// another of the above; errors.Is sees it.
	Reason error
	Advice string // what to do
	Err    error  // the cause, may be nil; errors.Is and errors.As see it too
}

func (e *DirectoryError) Error() string {
	s := fmt.Sprintf("%v: %s", e.Reason, e.Dir)
	if cause := e.cause(); cause != "" {
		s += ": " + cause
	}
	return s + " (" + e.Advice + ")"
}

// cause returns what Err says and Reason does not. That the lock is held is all that is known of
// who has a directory open.
func (e *DirectoryError) cause() string {
	if e.Err == nil || e.Reason == ErrLocked {
		return ""
	}
	return strings.TrimPrefix(e.Err.Error(), e.Reason.Error()+": ")
}

// Unwrap returns the reason and the cause.
func (e *DirectoryError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// A ReplicasError says that a broker cannot be removed because of what it has. errors.Is(err,
// ErrHoldsReplicas) is true for it.
type ReplicasError struct {
	Broker     int32
	Partitions []record.TopicPartition // by topic and number
}

func (e *ReplicasError) Error() string {
	first := e.Partitions[0]
	return fmt.Sprintf("%v: broker %d, %d of them, %s-%d for one: move them to other brokers or delete the topics", ErrHoldsReplicas, e.Broker, len(e.Partitions), first.Topic, first.Partition)
}

// Unwrap returns ErrHoldsReplicas.
func (e *ReplicasError) Unwrap() error { return ErrHoldsReplicas }

func unknownPartition(name string, p int32) error {
	return fmt.Errorf("%w: %s-%d", ErrUnknownTopic, name, p)
}

// notLedBy returns the error of a partition that the broker that was asked does not lead.
func notLedBy(tp record.TopicPartition, asked int32) error {
	return fmt.Errorf("%w: broker %d does not lead %s-%d", ErrNotLeader, asked, tp.Topic, tp.Partition)
}

// leaderless returns the error of a partition that no broker leads.
func leaderless(tp record.TopicPartition) error {
	return fmt.Errorf("%w: no broker leads %s-%d", ErrNotLeader, tp.Topic, tp.Partition)
}
