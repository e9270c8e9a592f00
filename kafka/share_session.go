package kafka

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
)

const (
	// maxShareSessions bounds the share sessions of a broker. Kafka: group.share.max.share.sessions.
	maxShareSessions = 2000
	// maxOwnShareSessions bounds the share sessions of one principal.
	maxOwnShareSessions = maxShareSessions * 3 / 4
	// maxShareParts bounds the partitions of all share sessions of a broker, maxOwnShareParts those
	// of one principal.
	maxShareParts    = 500_000
	maxOwnShareParts = maxShareParts * 3 / 4
)

// Epochs of requests in share sessions. Kafka: ShareRequestMetadata.
const (
	openShareSession  = 0
	closeShareSession = -1
)

type shareSessionKey struct{ group, member string }

// sharePart identifies a partition in a share session.
type sharePart struct {
	id     [16]byte
	number int32
}

// shareSession keeps the partitions of a share group member between its requests, which have only
// changes. It belongs to a connection. When the connection ends, the records that the member has
// acquired in the session are released.
//
// The member may have a session at another broker, as when a partition moves. It may also open a
// new session here while records of the former one are being released. So records are acquired by
// the session's holder, a random name that no other session has. A session that replaces an open
// session keeps its holder.
type shareSession struct {
	key    shareSessionKey
	holder string
	conn   *conn
	epoch  int32 // of the next request
	parts  []sharePart
	names  map[[16]byte]string // names of the topics of parts; a topic that was missing has none

	counted int // partitions included in shareSessions.parts
}

// shareSessions has the share sessions of a broker. The zero shareSessions is empty.
type shareSessions struct {
	mu       sync.Mutex // guards the fields below and the fields of the sessions; a leaf
	sessions map[shareSessionKey]*shareSession
	parts    int // sum of counted over all sessions
}

// roomLocked reports whether there is room for a session of c's owner, in place of old if that is
// not nil.
func (s *shareSessions) roomLocked(c *conn, old *shareSession) bool {
	switch {
	case old != nil && old.conn.ownedBy == c.ownedBy, len(s.sessions) < maxShareSessions-maxOwnShareSessions:
		return true
	case old == nil && len(s.sessions) >= maxShareSessions:
		return false
	}
	own, _ := s.ownLocked(c)
	return own < maxOwnShareSessions
}

// fitLocked reports whether n more partitions of c's owner fit. It counts the owner's partitions
// only if there are many of all owners.
func (s *shareSessions) fitLocked(c *conn, n int) bool {
	if s.parts+n <= maxShareParts-maxOwnShareParts || n == 0 {
		return true
	}
	_, own := s.ownLocked(c)
	return own+n <= maxOwnShareParts && s.parts+n <= maxShareParts
}

// ownLocked returns the number of sessions of c's owner, and of their partitions.
func (s *shareSessions) ownLocked(c *conn) (sessions, parts int) {
	for _, session := range s.sessions {
		if session.conn.ownedBy == c.ownedBy {
			sessions, parts = sessions+1, parts+session.counted
		}
	}
	return sessions, parts
}

// dropLocked removes a session, unless it is nil.
func (s *shareSessions) dropLocked(session *shareSession) {
	if session == nil {
		return
	}
	s.parts -= session.counted
	delete(s.sessions, session.key)
}

// countLocked updates the number of a session's partitions.
func (s *shareSessions) countLocked(session *shareSession) {
	s.parts += len(session.parts) - session.counted
	session.counted = len(session.parts)
}

// A sharePlan is the effect of a request on its share session.
type sharePlan struct {
	first, final bool   // the session begins or ends
	holder       string // of the records acquired in the session
	parts        []sharePart
}

// fetch creates, changes or ends the session of a ShareFetch. Kafka:
// SharePartitionManager.newContext.
func (s *shareSessions) fetch(c *conn, key shareSessionKey, req *kmsg.ShareFetchRequest) (plan sharePlan, code Code) {
	var named []sharePart
	names := map[[16]byte]string{}
	acks := false
	for _, t := range req.Topics {
		if name, ok := c.s.cluster.TopicName(t.TopicID); ok {
			names[t.TopicID] = name
		}
		for _, p := range t.Partitions {
			named = append(named, sharePart{t.TopicID, p.Partition})
			acks = acks || len(p.AcknowledgementBatches) > 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[key]
	switch {
	case req.ShareSessionEpoch == openShareSession && acks:
		return plan, InvalidRequest
	case req.ShareSessionEpoch != closeShareSession && !s.fitLocked(c, len(named)):
		return plan, ShareSessionLimitReached
	case req.ShareSessionEpoch == openShareSession:
		if !s.roomLocked(c, session) {
			return plan, ShareSessionLimitReached
		}
		holder := rand.Text()
		if session != nil {
			holder = session.holder
		}
		s.dropLocked(session)
		session = &shareSession{key: key, holder: holder, conn: c, epoch: 1, names: names}
		session.update(named, nil)
		if s.sessions == nil {
			s.sessions = map[shareSessionKey]*shareSession{}
		}
		s.sessions[key] = session
		s.countLocked(session)
		return sharePlan{first: true, holder: session.holder, parts: slices.Clone(session.parts)}, 0
	case session == nil:
		return plan, ShareSessionNotFound
	case req.ShareSessionEpoch == closeShareSession:
		s.dropLocked(session)
		return sharePlan{final: true, holder: session.holder, parts: session.parts}, 0
	case session.epoch != req.ShareSessionEpoch:
		return plan, InvalidShareSessionEpoch
	}
	session.conn, session.epoch = c, nextEpoch(session.epoch)
	maps.Copy(session.names, names)
	session.update(named, req.ForgottenTopicsData)
	s.countLocked(session)
	return sharePlan{holder: session.holder, parts: slices.Clone(session.parts)}, 0
}

// acknowledge returns the session of a ShareAcknowledge, and ends it after its last request.
func (s *shareSessions) acknowledge(key shareSessionKey, epoch int32) (plan sharePlan, code Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[key]
	switch {
	case epoch == openShareSession:
		return plan, InvalidShareSessionEpoch
	case session == nil:
		return plan, ShareSessionNotFound
	case epoch == closeShareSession:
		s.dropLocked(session)
		return sharePlan{final: true, holder: session.holder, parts: session.parts}, 0
	case session.epoch != epoch:
		return plan, InvalidShareSessionEpoch
	}
	session.epoch = nextEpoch(session.epoch)
	return sharePlan{holder: session.holder}, 0
}

// update adds partitions to the session and removes others.
func (s *shareSession) update(named []sharePart, forgotten []kmsg.ShareFetchRequestForgottenTopicsData) {
	have := make(map[sharePart]bool, len(s.parts)+len(named))
	for _, p := range s.parts {
		have[p] = true
	}
	for _, p := range named {
		if !have[p] {
			have[p] = true
			s.parts = append(s.parts, p)
		}
	}
	gone := map[sharePart]bool{}
	for _, t := range forgotten {
		for _, n := range t.Partitions {
			gone[sharePart{t.TopicID, n}] = true
		}
	}
	if len(gone) > 0 {
		s.parts = slices.DeleteFunc(s.parts, func(p sharePart) bool { return gone[p] })
		kept := make(map[[16]byte]bool, len(s.names))
		for _, p := range s.parts {
			kept[p.id] = true
		}
		maps.DeleteFunc(s.names, func(id [16]byte, _ string) bool { return !kept[id] })
	}
}

// nameOf returns the name that a topic had when a member added it to its session; empty if there
// was none.
func (s *shareSessions) nameOf(key shareSessionKey, id [16]byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[key]; session != nil {
		return session.names[id]
	}
	return ""
}

// turn moves partitions that returned records to the end, for the next fetch. It reports whether
// the holder still has a session. Otherwise the caller must release the records that it has
// acquired.
func (s *shareSessions) turn(key shareSessionKey, holder string, served map[sharePart]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[key]
	if session == nil || session.holder != holder {
		return false
	}
	if len(served) < len(session.parts) {
		slices.SortStableFunc(session.parts, func(a, b sharePart) int {
			switch {
			case served[a] == served[b]:
				return 0
			case served[b]:
				return -1
			}
			return 1
		})
	}
	return true
}

// of removes and returns the sessions of a connection.
func (s *shareSessions) of(c *conn) (all []*shareSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if session.conn == c {
			all = append(all, session)
			s.dropLocked(session)
		}
	}
	return all
}

// giveBackTime bounds the wait of an ended connection until its members' records are released.
// Records that remain are released when their locks time out.
const giveBackTime = 5 * time.Second

// endShareSessions releases the records that were acquired in the sessions of an ended connection.
func (c *conn) endShareSessions() {
	sessions := c.broker.shares.of(c)
	if len(sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.transport.Context()), giveBackTime)
	defer cancel()
	for _, session := range sessions {
		if err := c.s.giveBack(ctx, session.key.group, session.holder, session.parts); err != nil {
			c.s.log.Info("acquired records are given back when their locks pass", "group", session.key.group, "member", session.key.member, "error", err)
		}
	}
}

// giveBack releases the records of partitions that a holder has acquired. The deliveries count, as
// in Kafka.
func (s *Server) giveBack(ctx context.Context, group, holder string, parts []sharePart) error {
	shares, err := s.cluster.Shares()
	if err != nil {
		return err
	}
	tps := make([]share.TopicPartition, 0, len(parts))
	for _, p := range parts {
		tps = append(tps, share.TopicPartition{TopicPartition: record.TopicPartition{Partition: p.number}, TopicID: p.id})
	}
	return shares.Expire(ctx, group, holder, tps)
}
