package producer

import (
	"context"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// A Backend stores the records of a producer. replication.Cluster implements it.
//
// If an error of a Backend has a method Retriable() bool, its result decides whether the call is
// retried, whatever else the error wraps: see consumer.Retriable. Otherwise the errors of packages
// partition and replication are classified by the producer, and any other error is final.
//
// A method ClusterID() string is optional. It returns the id of the cluster immediately.
type Backend interface {
	// Metadata returns the present metadata of the topics. It may block. A topic whose Err matches
	// replication.ErrUnknownTopic counts as missing: a record for it fails. The exceptions are
	// Config.AllowUnknownTopics, and an error whose Retriable method returns true because the
	// backend is not sure.
	Metadata(ctx context.Context, topics ...string) (replication.Metadata, error)

	// WaitMetadata blocks until the version of the metadata is above after, without polling.
	WaitMetadata(ctx context.Context, after int64) (int64, error)

	// Produce sends the request to the leader of its partition, in the order of the calls for one
	// partition. It must not block. req.Done is called exactly once, possibly from within Produce.
	Produce(req *partition.ProduceRequest)

	// InitProducerID returns a new producer id, which no other producer has. It may block.
	InitProducerID(ctx context.Context) (id int64, epoch int16, err error)
}

// identified is a Backend that has the id of its cluster.
type identified interface{ ClusterID() string }

// An Opener is a Backend that has a session for each producer, for example a connection with the
// producer's client id. New opens the session, and the producer uses it instead of the Opener.
type Opener interface {
	Backend

	// OpenProducer returns the backend for one producer. It must not block: connections are made by
	// the first call that needs one. The producer calls end once, when it has stopped and makes no
	// more calls.
	OpenProducer(s Session) (b Backend, end func(), err error)
}

// A Session describes a producer to an Opener.
type Session struct {
	ClientID        string // empty: none
	TransactionalID string // empty: the producer is not transactional; else b is a TxnBackend
	Acks            record.Acks
}

// versioned is a Backend in the same process. The producer reads its metadata version for every
// record, at the cost of reading a number. A change made by a call that has returned is thus
// visible to every later record. Changes at other backends are noticed a little later, through
// WaitMetadata.
type versioned interface{ MetadataVersion() int64 }
