package classic

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

func (s *player) event(name string, pos []string, opts map[string]string) Event {
	switch name {
	case "join":
		return s.join(pos[0], opts, slices.Contains(pos, "require-id"), slices.Contains(pos, "skip"))
	case "sync":
		r := &protocol.SyncRequest{Group: "g", MemberID: pos[0], InstanceID: opts["instance"], Generation: int32(s.int(opts["gen"])), ProtocolType: opts["type"], ProtocolName: opts["protocol"]}
		for pair := range strings.SplitSeq(opts["assign"], ",") {
			if id, share, ok := strings.Cut(pair, ":"); ok {
				if r.Assignments == nil {
					r.Assignments = map[string][]byte{}
				}
				r.Assignments[id] = []byte(share)
			}
		}
		return EventSync{r, s.ticket}
	case "heartbeat":
		return EventHeartbeat{&protocol.HeartbeatRequest{MemberID: pos[0], InstanceID: opts["instance"], Generation: int32(s.int(opts["gen"]))}, s.ticket}
	case "leave":
		ev := EventLeave{To: s.ticket}
		for _, id := range pos {
			ev.Members = append(ev.Members, protocol.LeaveMember{MemberID: id})
		}
		if i := opts["instance"]; i != "" {
			ev.Members = append(ev.Members, protocol.LeaveMember{InstanceID: i})
		}
		return ev
	case "commit":
		return EventCommit{CommitRequest: s.commit(pos, opts), TopicIDs: s.topicIDs(), To: s.ticket}
	case "txn":
		id, epoch, _ := strings.Cut(pos[0], "/")
		r := &protocol.TxnCommitRequest{CommitRequest: *s.commit(pos[1:], opts), ProducerID: int64(s.int(id)), ProducerEpoch: int16(s.int(epoch))}
		return EventTxnCommit{TxnCommitRequest: r, TopicIDs: s.topicIDs(), To: s.ticket}
	case "cancel":
		return EventCancel{machine.Ticket(s.int(pos[0]))}
	case "expire":
		return EventExpire{}
	case "delete":
		return EventDelete{s.ticket}
	case "delete-offsets":
		ev := EventDeleteOffsets{To: s.ticket}
		for _, w := range pos {
			ev.Partitions = append(ev.Partitions, s.tp(w))
		}
		return ev
	case "reset":
		ev := EventReset{Offsets: record.Offsets{}, Expel: slices.Contains(pos, "expel"), To: s.ticket}
		for k, v := range opts {
			ev.Offsets[s.tp(k)] = int64(s.int(v))
		}
		return ev
	case "shift":
		ev := EventReset{Shift: int64(s.int(pos[0])), Bounds: map[record.TopicPartition]protocol.Bounds{}, Expel: true, To: s.ticket}
		for k, v := range opts {
			start, end, _ := strings.Cut(v, "..")
			ev.Bounds[s.tp(k)] = protocol.Bounds{Start: int64(s.int(start)), End: int64(s.int(end))}
		}
		return ev
	case "topic-deleted":
		ev := EventTopicDeleted{Topic: pos[0]}
		if id, ok := opts["id"]; ok {
			ev.ID[0] = byte(s.int(id))
		}
		return ev
	}
	s.t.Fatalf("unknown event %q", name)
	return nil
}

func (s *player) join(clientID string, opts map[string]string, requireID, skip bool) Event {
	r := &protocol.JoinRequest{Group: "g", MemberID: opts["id"], InstanceID: opts["instance"], ClientID: clientID, ClientHost: "/h", ProtocolType: "consumer",
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second, RequireMemberID: requireID, SkipAssignment: skip}
	if v, ok := opts["type"]; ok {
		r.ProtocolType = v
	}
	if v, ok := opts["process"]; ok {
		r.ClientHost = InProcess + v
	}
	if v, ok := opts["session"]; ok {
		r.SessionTimeout = s.duration(v)
	}
	if v, ok := opts["rebalance"]; ok {
		r.RebalanceTimeout = s.duration(v)
	}
	topics := []string{"t"}
	if v, ok := opts["topics"]; ok {
		topics = strings.Split(v, ",")
	}
	protocols, ok := opts["protocols"]
	if !ok {
		protocols = "range"
	}
	for p := range strings.SplitSeq(protocols, ",") {
		r.Protocols = append(r.Protocols, assignor.Protocol{Name: p, Metadata: assignor.Subscription{Topics: topics, Generation: -1}.AppendTo(nil)})
	}
	if s.g.State() == protocol.Dead && r.MemberID == "" {
		s.step(EventCreate{})
	}
	ev := EventJoin{JoinRequest: r, To: s.ticket}
	if r.MemberID == "" {
		s.ids++
		ev.NewID = fmt.Sprintf("%s-%d", clientID, s.ids)
	}
	return ev
}

// topicIDs returns the ids of all topics, which are equal: the topics were created together.
func (s *player) topicIDs() map[string][16]byte {
	return map[string][16]byte{"t": s.topicID, "u": s.topicID, "v": s.topicID}
}

func (s *player) commit(pos []string, opts map[string]string) *protocol.CommitRequest {
	r := &protocol.CommitRequest{Group: "g", Generation: -1, InstanceID: opts["instance"], Offsets: map[record.TopicPartition]record.Committed{}}
	if len(pos) > 0 {
		r.MemberID = pos[0]
	}
	for k, v := range opts {
		switch k {
		case "gen":
			r.Generation = int32(s.int(v))
		case "retention":
			r.Retention = s.duration(v)
		case "metadata", "instance":
		default:
			c := record.Committed{Offset: int64(s.int(v)), LeaderEpoch: -1}
			if n, ok := opts["metadata"]; ok {
				c.Metadata = strings.Repeat("x", s.int(n))
			}
			r.Offsets[s.tp(k)] = c
		}
	}
	return r
}
