package producer

import (
	"context"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
)

// A Backend is where records go. replication.Cluster is one.
//
// An error of a Backend that has a method Retriable() bool decides by it whether the call is worth
// repeating; otherwise the errors of packages partition and replication are known, and any other
// error is final.
type Backend interface {
	// Metadata returns what is known of the topics. It may block. A topic whose Err matches
	// replication.ErrUnknownTopic is taken to be missing, and a record for it fails, unless
	// Config.AllowUnknownTopics is set or the error's Retriable method says that the backend is not
	// sure.
	Metadata(ctx context.Context, topics ...string) (replication.Metadata, error)

	// WaitMetadata returns when the version of the metadata is above after, without polling.
	WaitMetadata(ctx context.Context, after int64) (int64, error)

	// Produce takes the request to the leader of its partition, in the order of the calls for one
	// partition. It must not block. req.Done is called exactly once, possibly from within Produce.
	Produce(req *partition.ProduceRequest)

	// InitProducerID returns a producer id that nobody else has. It may block.
	InitProducerID(ctx context.Context) (id int64, epoch int16, err error)
}

// versioned is a Backend in the same process: it can be asked for the version of its metadata with
// every record, at the cost of reading a number. What was changed by a call that has returned is
// known to every record that is sent from then on. Changes at other backends are seen a little
// later, through WaitMetadata.
type versioned interface{ MetadataVersion() int64 }
