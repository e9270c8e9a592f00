package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// fields is a decoded object with ordered fields.
type fields []field

// MarshalJSON writes an object.
func (fs fields) MarshalJSON() ([]byte, error) { return marshalFields(fs) }

func marshalFields(fs []field) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain returns v as one line of text.
func plain(v any) string {
	p, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(p)
}

// decodeOffsets decodes a record of __consumer_offsets. It returns nil if the type of the key is
// unknown; the bytes are printed then.
func decodeOffsets(r *record.Record) any {
	k, ok, err := offsets.ParseKey(r.Key)
	if err != nil || !ok {
		return nil
	}
	out := fields{{"kind", keyKinds[k.Type]}, {"group", k.Group}}
	if k.Type == offsets.KeyOffset {
		out = append(out, field{"topic", k.Topic}, field{"partition", k.Partition})
	}
	if k.Member != "" {
		out = append(out, field{"member", k.Member})
	}
	if r.Value == nil {
		return append(out, field{"tombstone", true})
	}
	v, err := offsets.ParseValue(k.Type, r.Value)
	if err != nil {
		return append(out, field{"error", err.Error()})
	}
	switch v := v.(type) {
	case nil:
		return out
	case *offsets.OffsetValue:
		out = append(out, field{"offset", v.Offset}, field{"leaderEpoch", v.LeaderEpoch}, field{"metadata", v.Metadata}, field{"commitMs", v.CommitMs})
		if v.ExpireMs >= 0 {
			out = append(out, field{"expireMs", v.ExpireMs})
		}
		if v.TopicID != [16]byte{} {
			out = append(out, field{"topicId", uuid(v.TopicID)})
		}
		return out
	case *offsets.GroupValue:
		return append(out, groupFields(v)...)
	}
	return append(out, field{"value", v})
}

func groupFields(v *offsets.GroupValue) fields {
	members := []fields{}
	for _, m := range v.Members {
		f := fields{{"member", m.ID}, {"instance", m.InstanceID}, {"clientId", m.ClientID}, {"host", m.ClientHost}}
		if a, err := assignor.ParseAssignment(m.Assignment); err == nil && v.ProtocolType == group.ProtocolTypeConsumer {
			parts := []string{}
			for _, tp := range a.Partitions {
				parts = append(parts, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
			}
			f = append(f, field{"assignment", parts})
		}
		members = append(members, f)
	}
	return fields{{"protocolType", v.ProtocolType}, {"generation", v.Generation}, {"protocol", v.Protocol}, {"leader", v.Leader}, {"members", members}}
}

var keyKinds = map[offsets.KeyType]string{
	offsets.KeyOffset: "offset", offsets.KeyGroup: "group", offsets.KeyConsumerGroup: "consumerGroup", offsets.KeyPartitionMetadata: "partitionMetadata",
	offsets.KeyConsumerMember: "consumerMember", offsets.KeyTargetAssignment: "targetAssignment", offsets.KeyTargetAssignmentMember: "targetAssignmentMember",
	offsets.KeyCurrentAssignmentOfMember: "currentAssignment", offsets.KeyRegularExpression: "regularExpression",
	offsets.KeyShareMember: "shareMember", offsets.KeyShareGroup: "shareGroup", offsets.KeyShareTarget: "shareTargetAssignment",
	offsets.KeyShareTargetMember: "shareTargetAssignmentMember", offsets.KeyShareCurrentAssignment: "shareCurrentAssignment", offsets.KeyShareStates: "shareStates",
	offsets.KeyStreamsGroup: "streamsGroup", offsets.KeyStreamsMember: "streamsMember", offsets.KeyStreamsTarget: "streamsTargetAssignment",
	offsets.KeyStreamsTargetMember: "streamsTargetAssignmentMember", offsets.KeyStreamsCurrentAssignment: "streamsCurrentAssignment", offsets.KeyStreamsTopology: "streamsTopology",
}

// decodeMetadata decodes a record of __cluster_metadata. Record types that Strata does not write
// are named by their number.
func decodeMetadata(r *record.Record) any {
	rec, err := metarecord.Parse(r.Value)
	if err != nil {
		return fields{{"kind", "unknown"}, {"error", err.Error()}, {"bytes", len(r.Value)}}
	}
	switch m := rec.(type) {
	case *metarecord.Topic:
		return fields{{"kind", "TopicRecord"}, {"name", m.Name}, {"topicId", uuid(m.ID)}}
	case *metarecord.RemoveTopic:
		return fields{{"kind", "RemoveTopicRecord"}, {"topicId", uuid(m.ID)}}
	case *metarecord.Partition:
		return fields{{"kind", "PartitionRecord"}, {"topicId", uuid(m.TopicID)}, {"partition", m.Partition}, {"leader", m.Leader},
			{"leaderEpoch", m.LeaderEpoch}, {"partitionEpoch", m.PartitionEpoch}, {"replicas", m.Replicas}, {"isr", m.ISR}}
	case *metarecord.PartitionChange:
		return fields{{"kind", "PartitionChangeRecord"}, {"topicId", uuid(m.TopicID)}, {"partition", m.Partition}, {"leader", m.Leader},
			{"replicas", m.Replicas}, {"isr", m.ISR}}
	case *metarecord.Config:
		return fields{{"kind", "ConfigRecord"}, {"resourceType", m.ResourceType}, {"resource", m.ResourceName}, {"name", m.Name}, {"value", m.Value}}
	case *metarecord.FeatureLevel:
		return fields{{"kind", "FeatureLevelRecord"}, {"name", m.Name}, {"level", m.Level}}
	case *metarecord.UserScramCredential: // its keys are secrets
		return fields{{"kind", "UserScramCredentialRecord"}, {"name", m.Name}, {"mechanism", m.Mechanism}, {"iterations", m.Iterations}}
	case *metarecord.RemoveUserScramCredential:
		return fields{{"kind", "RemoveUserScramCredentialRecord"}, {"name", m.Name}, {"mechanism", m.Mechanism}}
	case *metarecord.ClientQuota:
		var entity fields
		for _, p := range m.Entity {
			entity = append(entity, field{p.Type, p.Name})
		}
		if m.Remove {
			return fields{{"kind", "ClientQuotaRecord"}, {"entity", entity}, {"key", m.Key}, {"remove", true}}
		}
		return fields{{"kind", "ClientQuotaRecord"}, {"entity", entity}, {"key", m.Key}, {"value", m.Value}}
	case *metarecord.ProducerIDs:
		return fields{{"kind", "ProducerIdsRecord"}, {"broker", m.BrokerID}, {"brokerEpoch", m.BrokerEpoch}, {"next", m.Next}}
	case *metarecord.AccessControlEntry:
		return fields{{"kind", "AccessControlEntryRecord"}, {"id", uuid(m.ID)}, {"resourceType", acl.ResourceType(m.ResourceType).String()}, {"resource", m.ResourceName},
			{"patternType", acl.PatternType(m.PatternType).String()}, {"principal", m.Principal}, {"host", m.Host},
			{"operation", acl.Operation(m.Operation).String()}, {"permission", acl.Permission(m.Permission).String()}}
	case *metarecord.RemoveAccessControlEntry:
		return fields{{"kind", "RemoveAccessControlEntryRecord"}, {"id", uuid(m.ID)}}
	case *metarecord.NoOp:
		if m.Snapshot {
			return fields{{"kind", "NoOpRecord"}, {"snapshot", true}}
		}
		return fields{{"kind", "NoOpRecord"}}
	}
	return nil
}
