package kafkadir

import (
	"sync"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A Report is the result of Import or Export. The caller owns it.
type Report struct {
	ClusterID string
	Broker    int32   // Kafka's node.id; after Export, the first of Brokers
	Brokers   []int32 // by id; after Import nil
	Clean     bool    // the broker was shut down cleanly
	// Metadata means that there was a log of Kafka's metadata. Without one there are no topic
	// settings, users or access control entries.
	Metadata bool

	Topics []TopicReport // by name
	Bytes  int64         // of all files that were copied or cloned
	Cloned int64         // the part of Bytes that was cloned (reflinks)

	// Missing has the partitions that are empty now because the source lacked them, or that may
	// lack records of other brokers (ImportConfig.AllowMissing).
	Missing []MissingPartition
	// Cut has the last segments of a killed broker that ended in an incomplete batch.
	Cut []CutEnd
	// Gaps has the missing offsets of topics that are not known to be compacted, if it is unknown
	// whether they should exist; by topic and partition.
	Gaps []Gap
	// Behind has the replicas that Export left out, by topic and partition, because they are damaged
	// or did not reach the end of their leader. They are not in sync in the copy, and Kafka copies
	// them.
	Behind []ReplicaBehind
	// LeftOut has, each with the reason: directories that belong to no topic; settings that Strata
	// does not have; and users, access control entries and client quotas that it does not accept.
	LeftOut []string
	// Skipped counts metadata records of types that Strata does not keep, by Kafka's name.
	Skipped map[string]int

	Users, ACLs      int
	Quotas           int   // client quotas, one for each entity and key
	Tokens           int   // delegation tokens; they are valid only with the secret of the source
	OpenTransactions int   // transactions without a marker, one for each partition
	NextProducerID   int64 // above all producer ids that were handed out
}

// A TopicReport describes one topic.
type TopicReport struct {
	Name         string
	ID           topic.ID
	Partitions   int
	Bytes        int64 // of the segments' batches
	RetentionOff bool  // the topic got retention.ms=-1: see the package comment
}

// A CutEnd is an incomplete end of a partition that was removed.
type CutEnd struct {
	record.TopicPartition
	Offset int64 // the log end offset now
	Bytes  int64 // of the incomplete batch
}

// A ReplicaBehind is a replica that is damaged or lacks records of its leader.
type ReplicaBehind struct {
	record.TopicPartition
	Broker int32
	Damage string // the damage of its files; "" if it lacks records
}

// A Gap is a range of offsets that a partition lacks, and may have had.
type Gap struct {
	record.TopicPartition
	First, End int64 // the first offset, and the offset after the last
	Reason     string
}

// Progress is the progress of a call.
type Progress struct {
	Partition   string // the partition of the last copied file, such as "orders-0"
	Done, Total int64  // bytes
}

// meter reports progress, one call at a time.
type meter struct {
	report func(Progress) // nil: none
	total  int64

	mu   sync.Mutex // guards done; held while report runs, which must not call back
	done int64
}

func (m *meter) add(partition string, n int64) {
	if m.report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.report(Progress{partition, m.done, m.total})
}
