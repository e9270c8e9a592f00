package classic

import (
	"time"
	"unicode/utf8"

	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/group/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// EventCommit is a CommitRequest for topics that exist. The reply is a
// map[record.TopicPartition]error with an entry for each offset, nil for those that are stored.
type EventCommit struct {
	*protocol.CommitRequest
	TopicIDs map[string][16]byte
	To       machine.Ticket
}

func (e EventCommit) step(g *Group, now time.Time) {
	m, err := g.checkCommit(e.CommitRequest)
	if err != nil {
		g.reply(e.To, nil, err)
		return
	}
	if m != nil && g.state != protocol.CompletingRebalance {
		g.alive(m, now)
	}
	g.reply(e.To, g.commitAll(e.CommitRequest, e.TopicIDs, now), nil)
}

// commitAll emits the offsets that can be stored, and returns which can.
func (g *Group) commitAll(r *protocol.CommitRequest, topicIDs map[string][16]byte, now time.Time) map[record.TopicPartition]error {
	errs := make(map[record.TopicPartition]error, len(r.Offsets))
	for _, tp := range sorted(r.Offsets) {
		c := r.Offsets[tp]
		errs[tp] = checkMetadata(c.Metadata, g.cfg.OffsetMetadataMax)
		if errs[tp] != nil {
			continue
		}
		v := &offsets.OffsetValue{Offset: c.Offset, LeaderEpoch: c.LeaderEpoch, Metadata: c.Metadata, CommitMs: now.UnixMilli(), ExpireMs: -1, TopicID: topicIDs[tp.Topic]}
		if r.Retention > 0 {
			v.ExpireMs = now.Add(r.Retention).UnixMilli()
		}
		g.emit(offsets.Record{Key: offsets.Key{Type: offsets.KeyOffset, Group: g.id, Topic: tp.Topic, Partition: tp.Partition}, Offset: v})
	}
	return errs
}

// checkCommit decides whether a commit is accepted, and from which member; nil: from outside
// (Kafka: ClassicGroup.validateOffsetCommit).
func (g *Group) checkCommit(r *protocol.CommitRequest) (*member, error) {
	outside := r.Generation < 0 && r.MemberID == "" && r.InstanceID == ""
	switch {
	case g.state == protocol.Dead && r.Generation < 0: // a group of offsets only comes into being
		return nil, nil
	case g.state == protocol.Dead:
		return nil, errNoGroupForCommit
	case r.Generation < 0 && g.state == protocol.Empty:
		return nil, nil
	case outside:
		return nil, protocol.ErrUnknownMember
	}
	m, err := g.checkGeneration(r.MemberID, r.InstanceID, r.Generation)
	if err == nil && g.state == protocol.CompletingRebalance {
		return nil, protocol.ErrRebalanceInProgress
	}
	return m, err
}

// errNoGroupForCommit is ErrIllegalGeneration to clients of the classic protocol and
// ErrGroupNotFound to those that know that code.
var errNoGroupForCommit = &noGroupError{}

type noGroupError struct{}

func (*noGroupError) Error() string {
	return "group: commit of a member of a group that does not exist"
}
func (*noGroupError) Is(target error) bool {
	return target == protocol.ErrIllegalGeneration || target == protocol.ErrGroupNotFound
}

// checkMetadata bounds the metadata of a committed offset, which must be valid in UTF-16 units as
// Java counts them.
func checkMetadata(s string, limit int) error {
	if len(s) <= limit {
		return nil
	}
	n := 0
	for _, r := range s {
		n++
		if utf8.RuneLen(r) == 4 {
			n++ // a surrogate pair
		}
	}
	if n > limit {
		return &protocol.MetadataTooLargeError{Length: n, Max: limit}
	}
	return nil
}
