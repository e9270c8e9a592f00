package consumer

import (
	"context"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/share"
)

// ShareBackend gives access to share groups. Members of share groups need it. strata.Cluster
// implements it.
type ShareBackend interface {
	// JoinShare adds a member to a share group. The error matches ErrUnknownTopic if one of the
	// topics does not exist. It may block until ctx ends. The caller calls Leave.
	JoinShare(ctx context.Context, m ShareMember) (ShareMembership, error)
}

// ShareMember describes a member that joins a share group.
//
// In Kafka a MemberID is a UUID (topic.ParseID), and Reset and Isolation are settings of the group:
// share.auto.offset.reset and share.isolation.level. A backend on the network changes these
// settings or returns a *topic.ConfigError.
type ShareMember struct {
	Group    string
	MemberID string // unique among the active members of the group; never empty
	Topics   []string

	Reset     partition.OffsetSpec // starting offset of partitions that are new to the group
	Isolation Isolation            // the same for all members of the group
}

// ShareMembership is an active member of a share group. Fetch is called by one goroutine at a time,
// the other methods by any number, also during Fetch.
type ShareMembership interface {
	// Fetch acquires records of one partition for the member: at least one, at most max. It waits
	// for records until ctx ends, and then returns ctx's error. It includes partitions that are new
	// within five seconds, and continues without deleted topics. If none of the topics exists, the
	// error matches ErrUnknownTopic.
	Fetch(ctx context.Context, max int) (share.Fetched, error)

	// Begin starts the delivery of acquired records: their lock begins again, and the delivery is
	// counted. first and last are inclusive. If the member no longer holds one of them, the error
	// matches ErrNotAcquired and nothing has changed. It does not wait for a disk. A backend on the
	// network returns nil: there the delivery begins when the broker acquires the records.
	Begin(ctx context.Context, tp share.TopicPartition, first, last int64) error

	// Acknowledge sends the member's acknowledgements of a partition, of any type: share.Renew
	// renews locks. acks are sorted by offset and do not overlap. All of them are applied or none.
	// It does not wait until they are durable: stored waits for that, and may be called again after
	// its ctx has ended. The error of rejected acknowledgements, usually ErrNotAcquired, comes from
	// either. Thus a backend on the network need not wait in Acknowledge for the response.
	Acknowledge(ctx context.Context, tp share.TopicPartition, acks []share.Ack) (stored func(ctx context.Context) error, err error)

	// Leave releases all records that the member holds; these deliveries are not counted. It
	// returns when that is durable. It is called again for records of a Fetch that was active
	// during the first call, and returns nil if the backend is closed.
	Leave(ctx context.Context) error
}
