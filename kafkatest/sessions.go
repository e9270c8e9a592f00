package kafkatest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxSessions bounds the fetch sessions that are tracked. It is the number that all brokers can
// have.
const maxSessions = 1000 * maxBrokers

// sessions tracks the partitions of fetch sessions (KIP-227), from the requests and responses. A
// fetch in a session names only the partitions that change, but it reads all partitions of the
// session, and a fault can select any of them. Session ids are per broker. The zero value is ready.
// It is safe for concurrent use.
type sessions struct {
	mu   sync.Mutex // guards the field below
	byID map[sessionID]map[target]bool
}

type sessionID struct{ broker, id int32 }

func (s *sessions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = nil
}

// forget drops the sessions of a broker that has ended.
func (s *sessions) forget(broker int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byID, func(id sessionID, _ map[target]bool) bool { return id.broker == broker })
}

// request applies the changes of a fetch request to its session.
func (s *sessions) request(broker int32, req kmsg.Request) {
	fetch, ok := req.(*kmsg.FetchRequest)
	if !ok || fetch.SessionID == 0 {
		return
	}
	id := sessionID{broker, fetch.SessionID}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fetch.SessionEpoch <= 0 { // -1 closes the session, 0 replaces it
		delete(s.byID, id)
		return
	}
	held := s.byID[id]
	if held == nil {
		return
	}
	for _, t := range fetch.Topics {
		for _, p := range t.Partitions {
			held[target{topic: t.Topic, id: t.TopicID, partition: p.Partition}] = true
		}
	}
	for _, t := range fetch.ForgottenTopics {
		for _, p := range t.Partitions {
			delete(held, target{topic: t.Topic, id: t.TopicID, partition: p})
		}
	}
}

// response adds the session that a fetch has begun.
func (s *sessions) response(broker int32, req kmsg.Request, resp kmsg.Response) {
	fetch, ok := req.(*kmsg.FetchRequest)
	answer, answered := resp.(*kmsg.FetchResponse)
	if !ok || !answered || fetch.SessionEpoch != 0 || answer.SessionID == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[target]bool{}
	for _, t := range targets(fetch) {
		if t.partition >= 0 {
			held[t] = true
		}
	}
	if s.byID == nil {
		s.byID = map[sessionID]map[target]bool{}
	}
	for id := range s.byID {
		if len(s.byID) < maxSessions {
			break
		}
		delete(s.byID, id)
	}
	s.byID[sessionID{broker, answer.SessionID}] = held
}

// targets returns the partitions of a session that a request reads without naming them.
func (s *sessions) targets(broker int32, req kmsg.Request) []target {
	fetch, ok := req.(*kmsg.FetchRequest)
	if !ok || fetch.SessionEpoch <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ts []target
	for t := range s.byID[sessionID{broker, fetch.SessionID}] {
		ts = append(ts, t)
	}
	slices.SortFunc(ts, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.partition, b.partition))
	})
	return ts
}

// picked returns a copy of fetch that names the partitions of its session that pick selects; nil if
// there are none.
func (s *sessions) picked(broker int32, fetch *kmsg.FetchRequest, pick func(target) bool) kmsg.Request {
	some := *fetch
	some.Topics = nil
	at := map[target]int{}
	for _, t := range s.targets(broker, fetch) {
		if !pick(t) {
			continue
		}
		topic := target{topic: t.topic, id: t.id}
		i, ok := at[topic]
		if !ok {
			i = len(some.Topics)
			at[topic] = i
			q := kmsg.NewFetchRequestTopic()
			q.Topic, q.TopicID = t.topic, t.id
			some.Topics = append(some.Topics, q)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = t.partition
		some.Topics[i].Partitions = append(some.Topics[i].Partitions, p)
	}
	if len(some.Topics) == 0 {
		return nil
	}
	return &some
}
