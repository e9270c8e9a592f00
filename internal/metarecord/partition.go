package metarecord

// Partition creates a partition, or replaces its whole state.
type Partition struct {
	Partition                        int32
	TopicID                          ID
	Replicas, ISR, Removing, Adding  []int32
	Leader                           int32 // -1: none
	Recovering                       bool  // elected uncleanly and not confirmed since
	LeaderEpoch, PartitionEpoch      int32
	Directories                      []ID    // of the replicas, in their order; version 1
	EligibleLeaders, LastKnownLeader []int32 // version 2
	// Durable is not Kafka's, whose readers skip it. See package election.
	Durable bool
	// LedBy and LedSince are not Kafka's either. No broker but LedBy has led since the leader epoch
	// LedSince. Both are 0 if Leader is that broker and LeaderEpoch that epoch, or if it is unknown.
	LedBy, LedSince int32
}

// NoChange is the Leader of a PartitionChange that leaves the leader,
// and with it the leader epoch, as it is.
const NoChange = -2

// PartitionChange changes a partition: the partition epoch grows by one, the leader epoch too if
// Leader is not NoChange. A nil slice leaves its field unchanged; an empty one empties it.
type PartitionChange struct {
	Partition                        int32
	TopicID                          ID
	ISR                              []int32
	Leader                           int32 // NoChange; -1: none from now on
	Replicas, Removing, Adding       []int32
	Recovery                         int8 // -1: no change, 0: recovered, 1: recovering
	EligibleLeaders, LastKnownLeader []int32
	Directories                      []ID
	Durable                          int8 // Unchanged, Set or Unset; not Kafka's
}

// Tags of Partition.
const (
	tagRecovery        = 0
	tagEligibleLeaders = 1
	tagLastKnownLeader = 2
)

// tagDurable is a tag of Partition and of PartitionChange, far away from those that Kafka may give
// out.
const tagDurable = 10_000

// tagLed is a tag of Partition.
const tagLed = 10_001

func (p *Partition) header() (uint32, uint32) {
	switch {
	case p.EligibleLeaders != nil || p.LastKnownLeader != nil:
		return typePartition, 2
	case len(p.Directories) > 0:
		return typePartition, 1
	}
	return typePartition, 0
}

func (p *Partition) appendFields(dst []byte, version uint32) []byte {
	dst = append(appendInt32(dst, p.Partition), p.TopicID[:]...)
	for _, list := range [][]int32{p.Replicas, p.ISR, p.Removing, p.Adding} {
		dst = appendInt32s(dst, list)
	}
	dst = appendInt32(appendInt32(appendInt32(dst, p.Leader), p.LeaderEpoch), p.PartitionEpoch)
	if version >= 1 {
		dst = appendIDs(dst, p.Directories)
	}
	var t tags
	if p.Recovering {
		t.add(tagRecovery, []byte{1})
	}
	if p.EligibleLeaders != nil {
		t.add(tagEligibleLeaders, appendInt32s(nil, p.EligibleLeaders))
	}
	if p.LastKnownLeader != nil {
		t.add(tagLastKnownLeader, appendInt32s(nil, p.LastKnownLeader))
	}
	if p.Durable {
		t.add(tagDurable, []byte{1})
	}
	if p.LedBy != 0 {
		t.add(tagLed, appendInt32(appendInt32(nil, p.LedBy), p.LedSince))
	}
	return t.appendTo(dst)
}

func (p *Partition) readFields(r *reader, version uint32) {
	p.Partition, p.TopicID = r.int32(), r.id()
	p.Replicas, p.ISR, p.Removing, p.Adding = r.int32s(), r.int32s(), r.int32s(), r.int32s()
	p.Leader, p.LeaderEpoch, p.PartitionEpoch = r.int32(), r.int32(), r.int32()
	if version >= 1 {
		p.Directories = r.ids()
	}
	r.tagged(func(tag uint32, f *reader) {
		switch tag {
		case tagRecovery:
			p.Recovering = f.int8() != 0
		case tagEligibleLeaders:
			p.EligibleLeaders = f.changed()
		case tagLastKnownLeader:
			p.LastKnownLeader = f.changed()
		case tagDurable:
			p.Durable = f.int8() != 0
		case tagLed:
			p.LedBy, p.LedSince = f.int32(), f.int32()
		}
	})
}

// Tags of PartitionChange.
const (
	tagChangedISR             = 0
	tagChangedLeader          = 1
	tagChangedReplicas        = 2
	tagChangedRemoving        = 3
	tagChangedAdding          = 4
	tagChangedRecovery        = 5
	tagChangedEligibleLeaders = 6
	tagChangedLastKnownLeader = 7
	tagChangedDirectories     = 8
)

func (p *PartitionChange) header() (uint32, uint32) {
	switch {
	case p.EligibleLeaders != nil || p.LastKnownLeader != nil:
		return typePartitionChange, 2
	case p.Directories != nil:
		return typePartitionChange, 1
	}
	return typePartitionChange, 0
}

func (p *PartitionChange) appendFields(dst []byte, _ uint32) []byte {
	dst = append(appendInt32(dst, p.Partition), p.TopicID[:]...)
	var t tags
	list := func(tag uint32, vs []int32) {
		if vs != nil {
			t.add(tag, appendInt32s(nil, vs))
		}
	}
	list(tagChangedISR, p.ISR)
	if p.Leader != NoChange {
		t.add(tagChangedLeader, appendInt32(nil, p.Leader))
	}
	list(tagChangedReplicas, p.Replicas)
	list(tagChangedRemoving, p.Removing)
	list(tagChangedAdding, p.Adding)
	if p.Recovery != -1 {
		t.add(tagChangedRecovery, []byte{byte(p.Recovery)})
	}
	list(tagChangedEligibleLeaders, p.EligibleLeaders)
	list(tagChangedLastKnownLeader, p.LastKnownLeader)
	if p.Directories != nil {
		t.add(tagChangedDirectories, appendIDs(nil, p.Directories))
	}
	if p.Durable != Unchanged {
		t.add(tagDurable, []byte{byte(p.Durable)})
	}
	return t.appendTo(dst)
}

func (p *PartitionChange) readFields(r *reader, _ uint32) {
	p.Partition, p.TopicID = r.int32(), r.id()
	p.Leader, p.Recovery = NoChange, -1
	r.tagged(func(tag uint32, f *reader) {
		switch tag {
		case tagChangedISR:
			p.ISR = f.changed()
		case tagChangedLeader:
			p.Leader = f.int32()
		case tagChangedReplicas:
			p.Replicas = f.changed()
		case tagChangedRemoving:
			p.Removing = f.changed()
		case tagChangedAdding:
			p.Adding = f.changed()
		case tagChangedRecovery:
			p.Recovery = f.int8()
		case tagChangedEligibleLeaders:
			p.EligibleLeaders = f.changed()
		case tagChangedLastKnownLeader:
			p.LastKnownLeader = f.changed()
		case tagChangedDirectories:
			if p.Directories = f.ids(); p.Directories == nil {
				p.Directories = []ID{}
			}
		case tagDurable:
			p.Durable = f.int8()
		}
	})
}

// changed reads an array whose presence means something: it is never nil.
func (r *reader) changed() []int32 {
	if vs := r.int32s(); vs != nil {
		return vs
	}
	return []int32{}
}
