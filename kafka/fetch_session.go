package kafka

import (
	"cmp"
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	maxSessionParts    = 50_000          // maximum of one session
	maxSessionsParts   = 500_000         // maximum of all sessions of a broker
	maxFetchSessions   = 1000            // Kafka: max.incremental.fetch.session.cache.slots
	unusedFetchSession = 2 * time.Minute // idle time after which a session makes room. Kafka: MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS
)

type topicKey struct {
	name string
	id   [16]byte
}

// fetchPart is a client's request for one partition and, in a session, the state in its last
// response. Either tp.Topic or id is set.
type fetchPart struct {
	tp record.TopicPartition
	id [16]byte
	// topic name of id when the client requested the partition; empty if id was unknown, or if the
	// request has names instead of ids
	name             string
	offset           int64
	maxBytes         int32
	leaderEpoch      int32
	lastFetchedEpoch int32

	told          bool // a response had this partition
	highWatermark int64
	logStart      int64
}

type partKey struct {
	topicKey
	partition int32
}

func (p *fetchPart) key() partKey { return partKey{topicKey{p.tp.Topic, p.id}, p.tp.Partition} }

// fetchSession keeps the partitions that a client reads between its requests (KIP-227). Requests
// have only changes, and responses only new data.
type fetchSession struct {
	id  int32
	ids bool // topics are named by id

	mu    sync.Mutex
	epoch int32 // of the next request
	parts map[partKey]*fetchPart
	order []*fetchPart // reading order: partitions that returned data move to the end

	client  fetchClient   // last user; guarded by the cache
	element *list.Element // guarded by the cache
	used    time.Time     // guarded by the cache
	counted int           // partitions included in sessionCache.parts; guarded by the cache
}

// A fetchClient is a connection that uses sessions, and the name of its owner.
type fetchClient struct {
	conn  *conn
	owner string
}

// sessionsOf counts the sessions of an owner, and their partitions.
type sessionsOf struct{ sessions, parts int }

// sessionCache has the sessions of all connections. A session is not bound to the connection that
// created it.
type sessionCache struct {
	max int

	mu       sync.Mutex
	sessions map[int32]*fetchSession
	parts    int        // sum of counted over all sessions
	recent   *list.List // of *fetchSession, least recently used first
	owners   map[string]sessionsOf
}

func newSessionCache(n int) *sessionCache {
	return &sessionCache{max: n, sessions: map[int32]*fetchSession{}, recent: list.New(), owners: map[string]sessionsOf{}}
}

// open sets the partitions of a fetch request and its session, which it creates, changes or
// removes. Kafka: FetchManager.newContext.
//
// nameOf returns the name of a topic by id; nil if the request has names.
func (s *sessionCache) open(f *fetching, req *kmsg.FetchRequest, nameOf func(topic.ID) (string, bool)) Code {
	ids := nameOf != nil
	switch {
	case req.SessionEpoch == -1: // the client uses no session, or ends one
		s.remove(req.SessionID)
		f.full, f.parts = true, wanted(req, nameOf)
		return 0
	case req.SessionEpoch == 0:
		s.remove(req.SessionID)
		f.full, f.parts = true, wanted(req, nameOf)
		if !namesTooLong(req) {
			f.session = s.create(f.parts, ids, f.client)
		}
		return 0
	}
	session := s.find(req.SessionID, f.client)
	if session == nil {
		return FetchSessionIDNotFound
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	if session.epoch != req.SessionEpoch {
		return InvalidFetchSessionEpoch
	}
	if session.ids != ids {
		return FetchSessionTopicIDError
	}
	if namesTooLong(req) {
		s.remove(session.id)
		return FetchSessionIDNotFound
	}
	session.epoch = nextEpoch(session.epoch)
	session.update(req, nameOf)
	if !s.grown(session, len(session.parts)) {
		return FetchSessionIDNotFound // the client then creates a new session
	}
	f.session, f.parts = session, append(f.parts, session.order...)
	if len(f.parts) == 0 {
		f.session, f.full = nil, true
		s.remove(session.id)
	}
	return 0
}

func nextEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}

// find returns a session and makes client its user; nil if there is none.
func (s *sessionCache) find(id int32, client fetchClient) *fetchSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[id]
	if session != nil {
		s.countLocked(session.client.owner, -1, -session.counted)
		session.used, session.client = time.Now(), client
		s.countLocked(client.owner, 1, session.counted)
		s.recent.MoveToBack(session.element)
	}
	return session
}

// countLocked adds to an owner's number of sessions and of their partitions.
func (s *sessionCache) countLocked(owner string, sessions, parts int) {
	n := s.owners[owner]
	n.sessions, n.parts = n.sessions+sessions, n.parts+parts
	s.owners[owner] = n
	if n.sessions == 0 {
		delete(s.owners, owner)
	}
}

// abandon is called when a connection has ended. Its sessions stay, since the client may connect
// again, but they are the first to make room for others.
func (s *sessionCache) abandon(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if session.client.conn == c {
			session.used, session.client.conn = time.Time{}, nil
			s.recent.MoveToFront(session.element)
		}
	}
}

// greedyLocked returns the least recently used session of an owner that has more than half of all
// sessions or of all partitions. It returns nil if there is none; it skips sessions of the given
// owner.
func (s *sessionCache) greedyLocked(owner string) *fetchSession {
	for e := s.recent.Front(); e != nil; e = e.Next() {
		session := e.Value.(*fetchSession)
		n := s.owners[session.client.owner]
		if session.client.owner != owner && (2*n.sessions > s.max || 2*n.parts > maxSessionsParts) {
			return session
		}
	}
	return nil
}

func (s *sessionCache) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[id]; session != nil {
		s.removeLocked(session)
	}
}

// grown sets the number of partitions of a session to n. If that exceeds a limit, it removes the
// session and returns false.
func (s *sessionCache) grown(session *fetchSession, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session.id] != session {
		return true // it was removed meanwhile, for example by a request that ends sessions
	}
	if n > maxSessionParts || n > session.counted && s.parts+n-session.counted > maxSessionsParts {
		s.removeLocked(session)
		return false
	}
	s.parts += n - session.counted
	s.countLocked(session.client.owner, 0, n-session.counted)
	session.counted = n
	return true
}

func (s *sessionCache) removeLocked(session *fetchSession) {
	s.parts -= session.counted
	s.countLocked(session.client.owner, -1, -session.counted)
	delete(s.sessions, session.id)
	s.recent.Remove(session.element)
}

// create creates a session. It returns nil if too many sessions or partitions are in use, or if
// there are no partitions; then the client continues without a session. To make room it removes
// sessions of closed connections first, then unused ones, then sessions of an owner with more than
// half.
func (s *sessionCache) create(parts []*fetchPart, ids bool, client fetchClient) *fetchSession {
	if len(parts) == 0 || len(parts) > maxSessionParts {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.sessions) > 0 && (len(s.sessions) >= s.max || s.parts+len(parts) > maxSessionsParts) {
		oldest := s.recent.Front().Value.(*fetchSession)
		if now.Sub(oldest.used) <= unusedFetchSession {
			if oldest = s.greedyLocked(client.owner); oldest == nil {
				return nil
			}
		}
		s.removeLocked(oldest)
	}
	session := &fetchSession{ids: ids, epoch: 1, parts: make(map[partKey]*fetchPart, len(parts)), used: now, client: client}
	for session.id == noFetchSession || s.sessions[session.id] != nil {
		session.id = rand.Int32()
	}
	for _, p := range parts {
		if session.parts[p.key()] == nil {
			session.parts[p.key()] = p
			session.order = append(session.order, p)
		}
	}
	session.counted = len(session.parts)
	s.parts += session.counted
	s.countLocked(client.owner, 1, session.counted)
	s.sessions[session.id] = session
	session.element = s.recent.PushBack(session)
	return session
}

// namesTooLong reports whether a request has a name that no topic can have. Such a request gets no
// session: the number of partitions bounds sessions, and each could have a name of 32 KiB.
func namesTooLong(req *kmsg.FetchRequest) bool {
	return slices.ContainsFunc(req.Topics, func(t kmsg.FetchRequestTopic) bool { return len(t.Topic) > topic.MaxNameLength })
}

// wanted lists the partitions of a request.
func wanted(req *kmsg.FetchRequest, nameOf func(topic.ID) (string, bool)) []*fetchPart {
	var parts []*fetchPart
	for i := range req.Topics {
		t := &req.Topics[i]
		name := ""
		if nameOf != nil {
			name, _ = nameOf(t.TopicID)
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			parts = append(parts, &fetchPart{
				tp: record.TopicPartition{Topic: t.Topic, Partition: p.Partition}, id: t.TopicID, name: name, offset: p.FetchOffset,
				maxBytes: p.PartitionMaxBytes, leaderEpoch: p.CurrentLeaderEpoch, lastFetchedEpoch: p.LastFetchedEpoch,
			})
		}
	}
	return parts
}

// update applies the changes of a request. It replaces partitions instead of changing them,
// because a response in progress may still use the old ones.
func (s *fetchSession) update(req *kmsg.FetchRequest, nameOf func(topic.ID) (string, bool)) {
	replaced := false
	for _, p := range wanted(req, nameOf) {
		old := s.parts[p.key()]
		s.parts[p.key()] = p
		if old == nil {
			s.order = append(s.order, p)
			continue
		}
		p.told, p.highWatermark, p.logStart = old.told, old.highWatermark, old.logStart
		p.name = cmp.Or(p.name, old.name)
		replaced = true
	}
	for _, t := range req.ForgottenTopics {
		for _, n := range t.Partitions {
			delete(s.parts, partKey{topicKey{t.Topic, t.TopicID}, n})
			replaced = true
		}
	}
	if !replaced {
		return
	}
	kept := s.order[:0]
	for _, p := range s.order {
		if now := s.parts[p.key()]; now != nil {
			kept = append(kept, now)
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
}

// news returns the results that are new to the client, and records them as sent. Partitions with
// data are read last the next time.
func (s *fetchSession) news(f *fetching) ([]*fetchPart, []kmsg.FetchResponseTopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []*fetchPart
	var answers []kmsg.FetchResponseTopicPartition
	served := map[*fetchPart]bool{}
	for i, p := range f.parts {
		a := &f.answers[i]
		if f.full || !p.told || a.ErrorCode != 0 || len(a.RecordBatches) > 0 || a.DivergingEpoch.Epoch >= 0 || a.PreferredReadReplica >= 0 ||
			p.highWatermark != a.HighWatermark || p.logStart != a.LogStartOffset {
			parts, answers = append(parts, p), append(answers, *a)
		}
		p.told, p.highWatermark, p.logStart = true, a.HighWatermark, a.LogStartOffset
		if a.ErrorCode != 0 {
			p.highWatermark = -1 // so that the next result is sent, too
		}
		if len(a.RecordBatches) > 0 {
			served[p] = true
		}
	}
	if len(served) > 0 && len(served) < len(s.order) {
		rotated := make([]*fetchPart, 0, len(s.order))
		for _, p := range s.order {
			if !served[p] {
				rotated = append(rotated, p)
			}
		}
		for _, p := range s.order {
			if served[p] {
				rotated = append(rotated, p)
			}
		}
		s.order = rotated
	}
	return parts, answers
}
