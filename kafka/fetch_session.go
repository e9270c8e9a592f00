package kafka

import (
	"cmp"
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	maxFetchSessions   = 1000            // Kafka: max.incremental.fetch.session.cache.slots
	unusedFetchSession = 2 * time.Minute // after that a session makes room for a new one. Kafka: MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS
)

type topicKey struct {
	name string
	id   [16]byte
}

// fetchPart is what a client wants of one partition and, in a session, what it was
// told last. Of name and id one is set.
type fetchPart struct {
	tp record.TopicPartition
	id [16]byte
	// that id had when the partition was asked for; "": it was unknown, or topics are named by name
	name             string
	offset           int64
	maxBytes         int32
	leaderEpoch      int32
	lastFetchedEpoch int32

	told          bool // the client has seen this partition in an answer
	highWatermark int64
	logStart      int64
}

type partKey struct {
	topicKey
	partition int32
}

func (p *fetchPart) key() partKey { return partKey{topicKey{p.tp.Topic, p.id}, p.tp.Partition} }

// fetchSession is what a client reads from, remembered between its requests (KIP-227): they say
// what changed, the answers what is new.
type fetchSession struct {
	id  int32
	ids bool // topics are named by id

	mu    sync.Mutex
	epoch int32 // of the next request
	parts map[partKey]*fetchPart
	order []*fetchPart // to read them in: those that had data go to the end

	element *list.Element // guarded by the cache
	used    time.Time     // guarded by the cache
}

// sessionCache holds the sessions of all connections: a session
// is not bound to the one it was made on.
type sessionCache struct {
	max int

	mu       sync.Mutex
	sessions map[int32]*fetchSession
	recent   *list.List // of *fetchSession, the one unused for longest in front
}

func newSessionCache(n int) *sessionCache {
	return &sessionCache{max: n, sessions: map[int32]*fetchSession{}, recent: list.New()}
}

// open finds the partitions that a request is about, and its
// session. Kafka: FetchManager.newContext.
//
// nameOf tells the names of topics that are named by id; nil: they are named by name.
func (s *sessionCache) open(f *fetching, req *kmsg.FetchRequest, nameOf func(topic.ID) (string, bool)) Code {
	ids := nameOf != nil
	switch {
	case req.SessionEpoch == -1: // no session, or its end
		s.remove(req.SessionID)
		f.full, f.parts = true, wanted(req, nameOf)
		return 0
	case req.SessionEpoch == 0:
		s.remove(req.SessionID)
		f.full, f.parts = true, wanted(req, nameOf)
		f.session = s.create(f.parts, ids)
		return 0
	}
	session := s.find(req.SessionID)
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
	session.epoch = nextEpoch(session.epoch)
	session.update(req, nameOf)
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

func (s *sessionCache) find(id int32) *fetchSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[id]
	if session != nil {
		session.used = time.Now()
		s.recent.MoveToBack(session.element)
	}
	return session
}

func (s *sessionCache) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[id]; session != nil {
		s.removeLocked(session)
	}
}

func (s *sessionCache) removeLocked(session *fetchSession) {
	delete(s.sessions, session.id)
	s.recent.Remove(session.element)
}

// create makes a session, or returns nil if there are too many that are in use, or nothing to read.
func (s *sessionCache) create(parts []*fetchPart, ids bool) *fetchSession {
	if len(parts) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.sessions) >= s.max {
		oldest := s.recent.Front().Value.(*fetchSession)
		if now.Sub(oldest.used) <= unusedFetchSession {
			return nil
		}
		s.removeLocked(oldest)
	}
	session := &fetchSession{ids: ids, epoch: 1, parts: make(map[partKey]*fetchPart, len(parts)), used: now}
	for session.id == noFetchSession || s.sessions[session.id] != nil {
		session.id = rand.Int32()
	}
	for _, p := range parts {
		if session.parts[p.key()] == nil {
			session.parts[p.key()] = p
			session.order = append(session.order, p)
		}
	}
	s.sessions[session.id] = session
	session.element = s.recent.PushBack(session)
	return session
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

// update applies what a request changes. Partitions are replaced, not changed: an answer
// under way may still use the old ones.
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

// news picks the answers that tell the client something, and remembers what it was told. Partitions
// that had data are read last next time.
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
			p.highWatermark = -1 // is told again
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
