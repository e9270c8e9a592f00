package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// EventCommit is a CommitRequest for topics that exist. The reply is a
// map[record.TopicPartition]error with an entry for each offset, nil if it is stored.
type EventCommit struct {
	*protocol.CommitRequest
	TopicIDs map[string][16]byte
	Bound    machine.Bound
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
	g.reply(e.To, g.commitAll(e.CommitRequest, e.TopicIDs, e.Bound, now, nil), nil)
}

// commitAll emits the offsets that can be stored. It returns an error for each offset, nil if it
// can be stored.
func (g *Group) commitAll(r *protocol.CommitRequest, topicIDs map[string][16]byte, by machine.Bound, now time.Time, in *machine.Producer) map[record.TopicPartition]error {
	records, errs := g.commit(g.eff.Records, r, topicIDs, g.cfg.OffsetMetadataMax, by, now, in)
	g.eff.Records = records
	return errs
}

// checkCommit validates a commit and returns its member; nil for a commit from outside the group
// (Kafka: ClassicGroup.validateOffsetCommit).
func (g *Group) checkCommit(r *protocol.CommitRequest) (*member, error) {
	outside := r.Generation < 0 && r.MemberID == "" && r.InstanceID == ""
	switch {
	case g.state == protocol.Dead && r.Generation < 0: // creates a group that only has offsets
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

// errNoGroupForCommit is ErrIllegalGeneration for clients of the classic protocol and
// ErrGroupNotFound for clients of the newer one.
var errNoGroupForCommit = &noGroupError{}

type noGroupError struct{}

func (*noGroupError) Error() string {
	return "group: commit of a member of a group that does not exist"
}
func (*noGroupError) Is(target error) bool {
	return target == protocol.ErrIllegalGeneration || target == protocol.ErrGroupNotFound
}
