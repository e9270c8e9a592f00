package offsets

import (
	"encoding/binary"

	"github.com/stratalog/strata/internal/wire"
)

// AppendTo implements Value.
func (v StreamsGroupValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt64(wire.AppendInt32(wire.AppendInt16(dst, 0), v.Epoch), v.MetadataHash)
	tags, n := []byte(nil), byte(0)
	if v.ValidatedTopology != -1 { // the default for readers
		tags, n = wire.AppendInt32(append(tags, 0, 4), v.ValidatedTopology), n+1
	}
	if len(v.AssignmentConfigs) > 0 {
		configs := appendPairs(nil, v.AssignmentConfigs)
		tags, n = append(binary.AppendUvarint(append(tags, 1), uint64(len(configs))), configs...), n+1
	}
	return append(append(dst, n), tags...)
}

// AppendTo implements Value.
func (v StreamsMemberValue) AppendTo(dst []byte) []byte {
	dst = appendNullable(appendNullable(wire.AppendInt16(dst, 0), v.InstanceID), v.RackID)
	dst = wire.AppendCompactString(wire.AppendCompactString(dst, v.ClientID), v.ClientHost)
	dst = wire.AppendInt32(wire.AppendInt32(dst, v.RebalanceTimeoutMs), v.TopologyEpoch)
	dst = wire.AppendCompactString(dst, v.ProcessID)
	if e := v.Endpoint; e == nil {
		dst = append(dst, 0xff)
	} else {
		dst = wire.AppendCompactString(append(dst, 1), e.Host)
		dst = append(wire.AppendInt16(dst, int16(e.Port)), 0)
	}
	return append(appendPairs(dst, v.ClientTags), 0)
}

// AppendTo implements Value.
func (v StreamsTargetMemberValue) AppendTo(dst []byte) []byte {
	return append(appendRoles(wire.AppendInt16(dst, 0), &v.StreamsTaskRoles), 0)
}

// AppendTo implements Value.
func (v StreamsCurrentAssignmentValue) AppendTo(dst []byte) []byte {
	dst = wire.AppendInt32(wire.AppendInt32(wire.AppendInt16(dst, 0), v.MemberEpoch), v.PreviousMemberEpoch)
	dst = append(dst, byte(v.State))
	return append(appendRoles(appendRoles(dst, &v.Assigned), &v.PendingRevocation), 0)
}

// AppendTo implements Value.
func (v StreamsTopologyValue) AppendTo(dst []byte) []byte {
	dst = appendCount(wire.AppendInt32(wire.AppendInt16(dst, 0), v.Epoch), len(v.Subtopologies))
	for _, s := range v.Subtopologies {
		dst = appendCompactStrings(wire.AppendCompactString(dst, s.ID), s.SourceTopics)
		dst = appendStreamsTopics(appendCompactStrings(dst, s.SourceTopicRegex), s.Changelogs)
		dst = appendStreamsTopics(appendCompactStrings(dst, s.RepartitionSinks), s.RepartitionSources)
		dst = appendCount(dst, len(s.CopartitionGroups))
		for _, g := range s.CopartitionGroups {
			dst = append(appendShorts(appendShorts(appendShorts(dst, g.SourceTopics), g.SourceTopicRegex), g.RepartitionSources), 0)
		}
		dst = append(dst, 0)
	}
	return append(dst, 0)
}

func appendPairs(dst []byte, all []StreamsPair) []byte {
	dst = appendCount(dst, len(all))
	for _, p := range all {
		dst = append(wire.AppendCompactString(wire.AppendCompactString(dst, p.Key), p.Value), 0)
	}
	return dst
}

func appendRoles(dst []byte, r *StreamsTaskRoles) []byte {
	for _, tasks := range [][]StreamsTasks{r.Active, r.Standby, r.Warmup} {
		dst = appendCount(dst, len(tasks))
		for _, t := range tasks {
			dst = appendInts(wire.AppendCompactString(dst, t.Subtopology), t.Partitions)
			dst = appendEpochsTag(dst, t.Epochs)
		}
	}
	return dst
}

func appendStreamsTopics(dst []byte, all []StreamsTopic) []byte {
	dst = appendCount(dst, len(all))
	for _, t := range all {
		dst = wire.AppendInt32(wire.AppendCompactString(dst, t.Name), t.Partitions)
		dst = append(appendPairs(wire.AppendInt16(dst, t.Replicas), t.Configs), 0)
	}
	return dst
}

func appendShorts(dst []byte, all []int16) []byte {
	dst = appendCount(dst, len(all))
	for _, n := range all {
		dst = wire.AppendInt16(dst, n)
	}
	return dst
}

// streamsValue reads the value of a record of a streams group.
func streamsValue(r *wire.Reader, t KeyType) any {
	switch t {
	case KeyStreamsGroup:
		return streamsGroup(r)
	case KeyStreamsMember:
		return streamsMember(r)
	case KeyStreamsTargetMember:
		v := &StreamsTargetMemberValue{streamsRoles(r)}
		r.Tags(nil)
		return v
	case KeyStreamsCurrentAssignment:
		v := &StreamsCurrentAssignmentValue{MemberEpoch: r.Int32(), PreviousMemberEpoch: r.Int32(), State: r.Int8(),
			Assigned: streamsRoles(r), PendingRevocation: streamsRoles(r)}
		r.Tags(nil)
		return v
	default: // KeyStreamsTopology
		return streamsTopology(r)
	}
}

func streamsGroup(r *wire.Reader) *StreamsGroupValue {
	v := &StreamsGroupValue{Epoch: r.Int32(), MetadataHash: r.Int64(), ValidatedTopology: -1}
	r.Tags(func(tag uint64, f *wire.Reader) {
		switch tag {
		case 0:
			v.ValidatedTopology = f.Int32()
		case 1:
			v.AssignmentConfigs = streamsPairs(f)
		}
	})
	return v
}

func streamsMember(r *wire.Reader) *StreamsMemberValue {
	v := &StreamsMemberValue{InstanceID: r.CompactString(), RackID: r.CompactString(), ClientID: r.CompactString(), ClientHost: r.CompactString(),
		RebalanceTimeoutMs: r.Int32(), TopologyEpoch: r.Int32(), ProcessID: r.CompactString()}
	if r.Int8() >= 0 && r.Err == nil {
		v.Endpoint = &StreamsEndpoint{Host: r.CompactString(), Port: uint16(r.Int16())}
		r.Tags(nil)
	}
	v.ClientTags = streamsPairs(r)
	r.Tags(nil)
	return v
}

func streamsTopology(r *wire.Reader) *StreamsTopologyValue {
	v := &StreamsTopologyValue{Epoch: r.Int32()}
	for n := r.CompactCount(8); n > 0 && r.Err == nil; n-- {
		s := StreamsSubtopology{ID: r.CompactString(), SourceTopics: compactStrings(r), SourceTopicRegex: compactStrings(r),
			Changelogs: streamsTopics(r), RepartitionSinks: compactStrings(r), RepartitionSources: streamsTopics(r)}
		for k := r.CompactCount(4); k > 0 && r.Err == nil; k-- {
			s.CopartitionGroups = append(s.CopartitionGroups, StreamsCopartitionGroup{compactShorts(r), compactShorts(r), compactShorts(r)})
			r.Tags(nil)
		}
		r.Tags(nil)
		v.Subtopologies = append(v.Subtopologies, s)
	}
	r.Tags(nil)
	return v
}

// streamsPairs reads pairs; nil: there are none.
func streamsPairs(r *wire.Reader) (out []StreamsPair) {
	for n := r.CompactCount(3); n > 0 && r.Err == nil; n-- {
		out = append(out, StreamsPair{r.CompactString(), r.CompactString()})
		r.Tags(nil)
	}
	return out
}

func streamsRoles(r *wire.Reader) StreamsTaskRoles {
	return StreamsTaskRoles{Active: streamsTasks(r), Standby: streamsTasks(r), Warmup: streamsTasks(r)}
}

func streamsTasks(r *wire.Reader) []StreamsTasks {
	n := r.CompactCount(3)
	out := make([]StreamsTasks, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		t := StreamsTasks{Subtopology: r.CompactString(), Partitions: compactInts(r)}
		r.Tags(func(tag uint64, f *wire.Reader) {
			if tag == 0 {
				t.Epochs = epochs(f)
			}
		})
		out = append(out, t)
	}
	return out
}

// streamsTopics reads topics; nil: there are none.
func streamsTopics(r *wire.Reader) (out []StreamsTopic) {
	for n := r.CompactCount(9); n > 0 && r.Err == nil; n-- {
		out = append(out, StreamsTopic{Name: r.CompactString(), Partitions: r.Int32(), Replicas: r.Int16(), Configs: streamsPairs(r)})
		r.Tags(nil)
	}
	return out
}

func compactShorts(r *wire.Reader) []int16 {
	n := r.CompactCount(2)
	out := make([]int16, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		out = append(out, r.Int16())
	}
	return out
}
