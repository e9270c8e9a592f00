package classic

import (
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// EventTxnCommit is a TxnCommitRequest for topics that exist. The reply is as for an EventCommit,
// with nil for offsets that are pending now.
type EventTxnCommit struct {
	*protocol.TxnCommitRequest
	TopicIDs map[string][16]byte
	Bound    machine.Bound
	To       machine.Ticket
}

func (e EventTxnCommit) step(g *Group, now time.Time) {
	if err := g.checkTxnCommit(&e.CommitRequest); err != nil {
		g.reply(e.To, nil, err)
		return
	}
	g.eff.Producer = &machine.Producer{ID: e.ProducerID, Epoch: e.ProducerEpoch}
	g.reply(e.To, g.commitAll(&e.CommitRequest, e.TopicIDs, e.Bound, now, g.eff.Producer), nil)
}

// checkTxnCommit validates a commit in a transaction (KIP-447). Unlike other commits, it may come
// from outside while the group has members: producers before KIP-447 send these. It may also come
// from a member before its sync. It does not renew the session (Kafka:
// ClassicGroup.validateOffsetCommit).
func (g *Group) checkTxnCommit(r *protocol.CommitRequest) error {
	outside := r.Generation < 0 && r.MemberID == "" && r.InstanceID == ""
	switch {
	case r.Generation < 0 && (g.state == protocol.Dead || g.state == protocol.Empty), outside:
		return nil
	case g.state == protocol.Dead:
		return protocol.ErrIllegalGeneration
	}
	_, err := g.checkGeneration(r.MemberID, r.InstanceID, r.Generation)
	return err
}

// ApplyPending implements machine.Transactional. Records other than offsets take effect at once,
// as in Kafka; no coordinator writes them in a transaction.
func (g *Group) ApplyPending(producerID int64, r offsets.Record) {
	if r.Key.Group != g.id || r.Key.Type != offsets.KeyOffset || r.Offset == nil {
		g.Apply(r)
		return
	}
	g.Committed.ApplyPending(producerID, r)
	g.existence()
}

// ApplyEnd implements machine.Transactional.
func (g *Group) ApplyEnd(producerID int64, commit bool) {
	g.Committed.ApplyEnd(producerID, commit)
	g.existence()
}
