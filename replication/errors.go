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
// package partition and errors of a configuration (*topic.ConfigError) are returned unchanged.
var (
	ErrClosed = errors.New("replication: cluster is closed")
	// ErrUnknownTopic is matched by *UnknownTopicError.
	ErrUnknownTopic = image.ErrUnknownTopic
	ErrTopicExists  = image.ErrTopicExists
	// ErrTopicIDInUse rejects a topic whose id is or was another topic's, or is invalid.
	ErrTopicIDInUse             = image.ErrTopicIDInUse
	ErrInvalidPartitions        = image.ErrInvalidPartitions
	ErrInvalidReplicationFactor = image.ErrInvalidReplicationFactor
	ErrInvalidAssignment        = image.ErrInvalidAssignment
	ErrTooManyBrokers           = errors.New("replication: too many brokers")
	ErrUnknownBroker            = image.ErrUnknownBroker

	// ErrInvalidElectionType is returned by ElectLeaders for an unknown type.
	ErrInvalidElectionType = errors.New("replication: no such type of election")

	// Reasons why ElectLeaders elects no leader: the requested replica leads already, it cannot
	// lead, or no replica can lead.
	ErrElectionNotNeeded           = image.ErrElectionNotNeeded
	ErrPreferredLeaderNotAvailable = image.ErrPreferredLeaderNotAvailable
	ErrEligibleLeadersNotAvailable = image.ErrEligibleLeadersNotAvailable
	// ErrNotInSync rejects a TransferLeader to a replica that is not in sync or whose broker does
	// not serve.
	ErrNotInSync = image.ErrNotInSync

	// ErrSharedDirectory rejects two brokers in one directory, or one inside another's directory.
	ErrSharedDirectory = errors.New("replication: two brokers in one directory")
	// ErrBrokerExists rejects an AddBroker for a broker that the cluster has already.
	ErrBrokerExists = errors.New("replication: broker exists already")
	// ErrHoldsReplicas is matched by *ReplicasError.
	ErrHoldsReplicas = errors.New("replication: broker has replicas")
	// ErrBrokerRunning rejects starting a broker that is running, starting or stopping.
	ErrBrokerRunning = errors.New("replication: broker is running")
	// ErrBrokerDown rejects stopping or killing a broker that is not running.
	ErrBrokerDown = errors.New("replication: broker is not running")
	// ErrLastBroker rejects stopping the last serving broker, even if other brokers are running but
	// fenced. Close the cluster instead.
	ErrLastBroker = errors.New("replication: last broker that serves")

	// ErrMetadataReadOnly is returned if so many copies of the metadata fail during a change that
	// its outcome is unknown: it may have happened. Later changes reopen the copies. A later change
	// that returns this error too has not happened, as long as no majority of the copies works. The
	// error names the failed disk and its error. Kafka: the quorum of controllers has no majority.
	ErrMetadataReadOnly = metalog.ErrReadOnly

	// ErrInvalidTopic is topic.ErrInvalidName: no such topic can exist.
	ErrInvalidTopic = topic.ErrInvalidName
	// ErrNotLeader is partition.ErrNotLeader: another broker leads the partition, or none does; the
	// metadata has the leader. Nothing was appended, unlike with partition.ErrNotLeaderAfterAppend.
	ErrNotLeader = partition.ErrNotLeader
	// ErrPolicyViolation is partition.ErrPolicyViolation: a well-formed request exceeds a limit of
	// the cluster.
	ErrPolicyViolation = partition.ErrPolicyViolation
)

// Reasons of a DirectoryError.
var (
	// ErrLocked: the directory is open in this process or in another.
	ErrLocked = metalog.ErrLocked
	// ErrNewerFormat: the format is newer than this version's.
	ErrNewerFormat = metalog.ErrNewerFormat
	// ErrDamaged: the metadata that every broker needs is damaged. A failing disk is not damage.
	ErrDamaged = metalog.ErrDamaged
	// ErrForeign: the directory has files of another program.
	ErrForeign = errors.New("replication: directory belongs to another program")
)

// Further reasons of a DirectoryError.
var (
	// ErrUnfinished: the directory is a backup that was interrupted.
	ErrUnfinished = errors.New("replication: directory is an unfinished backup")
	// ErrMixed: the directories of two brokers belong to different clusters.
	ErrMixed = errors.New("replication: directories are of different clusters")
	// ErrMissing: a directory is missing that the cluster needs.
	ErrMissing = errors.New("replication: directory of a broker is missing")
	// ErrRecordsMissing: the directory of a partition is missing or was replaced. The partition is
	// offline.
	ErrRecordsMissing = errors.New("replication: records of a partition are missing")
	// ErrMetadataWentBack: a broker has seen newer metadata than the present, which may be an old
	// copy. Partitions of topics created since would belong to no topic.
	ErrMetadataWentBack = errors.New("replication: metadata is older than a broker has seen")
	// ErrDirectoryWentBack: the directory of a broker is an older copy, and the broker has served
	// since. Other brokers lack a partition of it.
	ErrDirectoryWentBack = errors.New("replication: directory of a broker is an older copy")
	// ErrDiskReplaced: the broker had files, and its directory is empty. Its data may be lost.
	ErrDiskReplaced = errors.New("replication: directory of a broker is empty, but had files")
)

// A DirectoryError is the reason why a cluster's directory cannot be opened, with advice. No file
// in the directory was changed, with one exception. Where the metadata had to be read to find the
// reason, as for ErrMissing, its copies were recovered and closed in order.
type DirectoryError struct {
	Dir string
	// Reason is ErrLocked, ErrNewerFormat, ErrDamaged, ErrForeign or
	// another of the above; errors.Is matches it.
	Reason error
	Advice string // a remedy
	Err    error  // the cause, or nil; errors.Is and errors.As match it too
}

func (e *DirectoryError) Error() string {
	s := fmt.Sprintf("%v: %s", e.Reason, e.Dir)
	if cause := e.cause(); cause != "" {
		s += ": " + cause
	}
	return s + " (" + e.Advice + ")"
}

// cause returns the part of Err that Reason does not have. If the directory is locked, only that is
// known of its owner.
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

// A ReplicasError rejects the removal of a broker that still has replicas. errors.Is(err,
// ErrHoldsReplicas) is true for it.
type ReplicasError struct {
	Broker     int32
	Partitions []record.TopicPartition // the broker's partitions, by topic and number
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

// notLedBy returns the error for a partition that the requested broker does not lead.
func notLedBy(tp record.TopicPartition, asked int32) error {
	return fmt.Errorf("%w: broker %d does not lead %s-%d", ErrNotLeader, asked, tp.Topic, tp.Partition)
}

// leaderless returns the error of a partition that no broker leads, and why.
func leaderless(tp record.TopicPartition, why ...error) error {
	err := fmt.Errorf("%w: no broker leads %s-%d", ErrNotLeader, tp.Topic, tp.Partition)
	for i, cause := range why {
		separator := ": "
		if i > 0 {
			separator = "; "
		}
		err = fmt.Errorf("%w%s%w", err, separator, cause)
	}
	return err
}

// ErrTopicDiffers is matched by a *TopicDiffersError.
var ErrTopicDiffers = errors.New("replication: topic differs from the requested one")

// A TopicDiffersError lists the differences between an existing topic and the arguments of
// EnsureTopic. The topic can be used all the same.
type TopicDiffersError struct {
	Topic       string
	Differences []TopicDifference // at least one
}

// A TopicDifference is a setting, or the number of partitions or replicas, with the requested and
// the present value.
type TopicDifference struct {
	Name        string // Kafka's key, or "partitions" or "replication factor"
	Wanted, Has string
}

func (e *TopicDiffersError) add(name, wanted, has string) {
	e.Differences = append(e.Differences, TopicDifference{name, wanted, has})
}

func (e *TopicDiffersError) Error() string {
	text := fmt.Sprintf("topic %q exists and differs from the requested one: ", e.Topic)
	for i, d := range e.Differences {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s is %s, not %s", d.Name, d.Has, d.Wanted)
	}
	return text
}

// Is reports true for ErrTopicDiffers.
func (e *TopicDiffersError) Is(target error) bool { return target == ErrTopicDiffers }
