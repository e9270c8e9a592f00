package topic

// Info describes an existing topic. The caller owns it.
type Info struct {
	Name       string
	ID         ID
	Internal   bool     // holds the state of a coordinator
	Settings   Settings // effective configuration with sources
	Partitions []PartitionInfo
}

// PartitionInfo describes a partition of an existing topic, as its leader sees it. The offsets and
// the size are 0 in a partition that was never written.
type PartitionInfo struct {
	Partition      int32
	Leader         int32 // -1: none
	LeaderEpoch    int32
	Replicas, ISR  []int32
	LogStartOffset int64 // first readable offset
	HighWatermark  int64 // exclusive end of the readable records
	LogEndOffset   int64 // offset of the next record
	SizeBytes      int64 // size of all segments' batches
	Err            error // cause if the partition is offline
}

// SizeBytes returns the size of all partitions' batches.
func (i Info) SizeBytes() int64 {
	var n int64
	for _, p := range i.Partitions {
		n += p.SizeBytes
	}
	return n
}
