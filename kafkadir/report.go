package kafkadir

import (
	"sync"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A Report says what Import or Export has done. The caller owns it.
type Report struct {
	ClusterID string
	Broker    int32 // of Kafka: node.id
	Clean     bool  // the broker was stopped in order
	// Metadata: there was a log of Kafka's metadata. Without one there are no settings of topics,
	// no users and no access control entries.
	Metadata bool

	Topics []TopicReport // by name
	Bytes  int64         // of all files that were copied, or cloned
	Cloned int64         // of these, as reflinks

	// Missing are the partitions that are empty now because the source did not have them, or that
	// may lack what other brokers have (ImportConfig.AllowMissing).
	Missing []MissingPartition
	// Cut are last segments of a killed broker that ended in an unfinished batch.
	Cut []CutEnd
	// Gaps are offsets that are not there, in topics that are not known to be compacted, where
	// nothing tells whether they should be; by topic and partition.
	Gaps []Gap
	// LeftOut are directories that belong to no topic, settings that Strata does not have, users,
	// access control entries and client quotas that it does not accept, each with the reason.
	LeftOut []string
	// Skipped counts metadata records of types that Strata does not keep, by Kafka's name.
	Skipped map[string]int

	Users, ACLs      int
	Quotas           int   // of clients, one for each entity and key
	Tokens           int   // of delegation; they count under the secret of the other side
	OpenTransactions int   // without a marker yet, one for each partition
	NextProducerID   int64 // all ids that producers had are below
}

// A TopicReport is one topic.
type TopicReport struct {
	Name         string
	ID           topic.ID
	Partitions   int
	Bytes        int64 // of the segments' batches
	RetentionOff bool  // it got retention.ms=-1: see the package
}

// A CutEnd is an unfinished end of a partition.
type CutEnd struct {
	record.TopicPartition
	Offset int64 // where the log ends now
	Bytes  int64 // that were no whole batch
}

// A Gap is offsets that a partition does not have, and may have had.
type Gap struct {
	record.TopicPartition
	First, End int64 // the first, and the one behind the last
	Reason     string
}

// Progress says how far a call has come.
type Progress struct {
	Partition   string // that a file was just copied of, "orders-0"
	Done, Total int64  // bytes
}

// meter tells about progress, one call at a time.
type meter struct {
	tell  func(Progress)
	total int64

	mu   sync.Mutex // guards done; held while tell runs, which must not call back
	done int64
}

func (m *meter) add(partition string, n int64) {
	if m.tell == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.tell(Progress{partition, m.done, m.total})
}
