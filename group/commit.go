package group

import (
	"time"
	"unicode/utf8"

	"github.com/stratalog/strata/record"
)

// EventCommit is a CommitRequest for topics that exist. The reply is a map[record.TopicPartition]error with an entry for each offset, nil
// for those that are stored.
type EventCommit struct {
	*CommitRequest
	TopicIDs map[string][16]byte
	To       Ticket
}

func (e EventCommit) step(g *Group, now time.Time) {
	m, err := g.checkCommit(e.CommitRequest)
	if err != nil {
		g.reply(e.To, nil, err)
		return
	}
	if m != nil && g.state != CompletingRebalance {
		g.alive(m, now)
	}
	errs := make(map[record.TopicPartition]error, len(e.Offsets))
	for tp, c := range e.Offsets {
		errs[tp] = checkMetadata(c.Metadata, g.cfg.OffsetMetadataMax)
		if errs[tp] != nil {
			continue
		}
		v := &OffsetValue{Offset: c.Offset, LeaderEpoch: c.LeaderEpoch, Metadata: c.Metadata, CommitMs: now.UnixMilli(), ExpireMs: -1, TopicID: e.TopicIDs[tp.Topic]}
		if e.Retention > 0 {
			v.ExpireMs = now.Add(e.Retention).UnixMilli()
		}
		g.emit(Record{Key: Key{Type: KeyOffset, Group: g.id, Topic: tp.Topic, Partition: tp.Partition}, Offset: v})
	}
	g.reply(e.To, errs, nil)
}

// checkCommit decides whether a commit is accepted, and from which member; nil: from outside (Kafka: ClassicGroup.validateOffsetCommit).
func (g *Group) checkCommit(r *CommitRequest) (*member, error) {
	outside := r.Generation < 0 && r.MemberID == "" && r.InstanceID == ""
	switch {
	case g.state == Dead && r.Generation < 0: // a group of offsets only comes into being
		return nil, nil
	case g.state == Dead:
		return nil, errNoGroupForCommit
	case r.Generation < 0 && g.state == Empty:
		return nil, nil
	case outside:
		return nil, ErrUnknownMember
	}
	m, err := g.checkGeneration(r.MemberID, r.InstanceID, r.Generation)
	if err == nil && g.state == CompletingRebalance {
		return nil, ErrRebalanceInProgress
	}
	return m, err
}

// errNoGroupForCommit is ErrIllegalGeneration to clients of the classic protocol and ErrGroupNotFound to those that know that code.
var errNoGroupForCommit = &noGroupError{}

type noGroupError struct{}

func (*noGroupError) Error() string {
	return "group: commit of a member of a group that does not exist"
}
func (*noGroupError) Is(target error) bool {
	return target == ErrIllegalGeneration || target == ErrGroupNotFound
}

// checkMetadata bounds the metadata of a committed offset, which must be valid in UTF-16 units as Java counts them.
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
		return &MetadataTooLargeError{Length: n, Max: limit}
	}
	return nil
}
