package transaction

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// A debtor has the machines of transactional ids, which owe markers.
type debtor interface {
	// isOver reports whether the leadership that a shard belongs to has ended.
	isOver(coordinator.ShardID) bool
	// tell steps a machine, if its shard is still the given one.
	tell(to coordinator.ShardID, id string, ev lifecycle.Event)
}

// A sender sends markers until their partitions have them. One goroutine for each path from a
// coordinator's broker to another, while there are markers to send, sends all due ones in one call.
// A failed marker is due again after a pause, or when the metadata changes.
//
// A coordinator never sends a partition two markers of one transactional id at a time. A second
// one, of a machine that was loaded again, replaces the first, and waits for its result. Before
// version 2 a late marker would otherwise end the next transaction.
type sender struct {
	brokers brokers
	owner   debtor
	stop    <-chan struct{} // closed when closing
	retry   alarm.Alarm     // sends late markers that are due
	wg      sync.WaitGroup  // goroutines of paths
	counts  markerCounts

	mu     sync.Mutex // guards the fields below, and every owed; never held while waiting
	owed   map[owedKey]*owed
	due    map[replication.NetworkPath][]*owed // each path in it has a goroutine
	late   []*owed
	rested chan struct{} // made when closing; closed when all owed markers are late
	ended  bool
}

// An owedKey names a marker that is owed.
type owedKey struct {
	shard coordinator.ShardID // shard that owes it
	id    string
	tp    record.TopicPartition
}

// An owed marker is to be written to one partition. It is in one place at a time: in sender.late,
// in sender.due, or with the goroutine that sends it.
type owed struct {
	owedKey
	topicID  topic.ID
	markers  *lifecycle.Markers // the newest
	retryAt  time.Time          // while late
	failures int
}

// Failed markers are sent again after pauses from the first to the longest.
const (
	firstMarkerPause   = 5 * time.Millisecond
	longestMarkerPause = time.Second
)

func newSender(ctx context.Context, b brokers, owner debtor) *sender {
	s := &sender{brokers: b, owner: owner, stop: ctx.Done(), owed: make(map[owedKey]*owed), due: make(map[replication.NetworkPath][]*owed)}
	s.retry.Do = s.dueAgain
	return s
}

// lastMarkers bounds the wait of a closing sender for due markers.
const lastMarkers = time.Second

// close ends all sending. First it waits for the results of due and sent markers, so that a reader
// after a commit and an orderly stop sees the committed records. Failed ones are left to the next
// coordinator. stop ends the context of the sender.
func (s *sender) close(stop func()) {
	s.mu.Lock()
	if s.rested == nil {
		s.rested = make(chan struct{})
	}
	s.restedLocked()
	s.mu.Unlock()
	select {
	case <-s.rested:
	case <-time.After(lastMarkers):
	}
	stop()
	s.mu.Lock()
	s.ended = true
	clear(s.owed)
	s.late = nil
	s.mu.Unlock()
	s.retry.Stop()
	s.retry.Wait()
	s.wg.Wait()
}

// restedLocked is called when a marker is no longer being sent.
func (s *sender) restedLocked() {
	if s.rested != nil && len(s.owed) == len(s.late) && !s.ended {
		select {
		case <-s.rested:
		default:
			close(s.rested)
		}
	}
}

// owe sends markers until they are written. It reports to the machine each marker that is written,
// or whose partition no longer exists.
func (s *sender) owe(by coordinator.ShardID, m *lifecycle.Markers) {
	for _, tp := range m.Partitions {
		o := &owed{owedKey: owedKey{by, m.ID, tp}, markers: m}
		id, exists := s.brokers.TopicID(tp.Topic)
		o.topicID = id
		s.mu.Lock()
		if s.rested != nil {
			s.mu.Unlock()
			return
		}
		if before := s.owed[o.owedKey]; before != nil {
			before.markers = m
			s.mu.Unlock()
			continue
		}
		s.owed[o.owedKey] = o
		s.mu.Unlock()
		if !exists {
			s.giveUp(o, m)
			continue
		}
		s.direct(o)
	}
}

// direct puts a marker on the path to its partition's leader, if there is one. The caller has
// removed o from its former place.
func (s *sender) direct(o *owed) {
	if s.owner.isOver(o.shard) { // the next coordinator owes it
		s.forget(o)
		return
	}
	leader, _, err := s.brokers.LeaderOfTopic(o.tp, o.topicID)
	switch {
	case errors.Is(err, replication.ErrUnknownTopic):
		s.mu.Lock()
		m := o.markers
		s.mu.Unlock()
		s.giveUp(o, m)
		return
	case err != nil: // closing
		s.forget(o)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.owed[o.owedKey] != o:
	case leader < 0:
		s.lateLocked(o)
	default:
		s.dueLocked(replication.NetworkPath{From: o.shard.Broker, To: leader}, o)
	}
}

func (s *sender) dueLocked(path replication.NetworkPath, o *owed) {
	due, running := s.due[path]
	if !running && s.rested != nil {
		s.lateLocked(o)
		return
	}
	s.due[path] = append(due, o)
	if !running {
		s.wg.Go(func() { s.run(path) })
	}
}

// run sends the due markers of a path until there are none.
func (s *sender) run(path replication.NetworkPath) {
	for {
		s.mu.Lock()
		due := s.due[path]
		if len(due) == 0 || s.ended {
			delete(s.due, path)
			s.mu.Unlock()
			return
		}
		s.due[path] = nil
		markers, requests := make([]*lifecycle.Markers, len(due)), make([]replication.TxnMarker, len(due))
		for i, o := range due {
			markers[i], requests[i] = o.markers, o.request()
		}
		s.mu.Unlock()
		s.counts.sent.Add(int64(len(due)))
		s.brokers.WriteTxnMarkers(path, requests, s.stop, func(i int, err error) { s.answered(due[i], markers[i], err) })
	}
}

// request returns the request for the marker's partition, which may take any time.
func (o *owed) request() replication.TxnMarker {
	m := o.markers
	return replication.TxnMarker{Partition: o.tp, TopicID: o.topicID, TxnMarker: partition.TxnMarker{
		ProducerID: m.ProducerID, ProducerEpoch: m.Epoch, CoordinatorEpoch: o.shard.Epoch, Commit: m.Commit, Version: m.Version,
	}}
}

// answered handles the result of a marker that was sent for m.
func (s *sender) answered(o *owed, m *lifecycle.Markers, err error) {
	switch {
	case err == nil:
		s.settle(o, m)
	case errors.Is(err, partition.ErrInvalidProducerEpoch), errors.Is(err, partition.ErrCoordinatorFenced), errors.Is(err, replication.ErrUnknownTopic):
		// The partition has had a later epoch or coordinator, so it has the outcome; or the outcome
		// is lost for good.
		s.giveUp(o, m)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.owed[o.owedKey] == o {
			s.lateLocked(o)
		}
	}
}

// giveUp is settle for a marker that will not be written.
func (s *sender) giveUp(o *owed, m *lifecycle.Markers) {
	s.counts.givenUp.Add(1)
	s.settle(o, m)
}

// settle reports a marker of m to the machine. If the machine was loaded again meanwhile, it waits
// for a newer marker, which settle sends.
func (s *sender) settle(o *owed, m *lifecycle.Markers) {
	s.mu.Lock()
	owed, newest := s.owed[o.owedKey] == o, o.markers == m
	if owed && newest {
		delete(s.owed, o.owedKey)
		s.restedLocked()
	}
	s.mu.Unlock()
	switch {
	case !owed:
	case newest:
		s.owner.tell(o.shard, o.id, lifecycle.EventMarked{Markers: m, Partitions: []record.TopicPartition{o.tp}})
	default:
		s.direct(o)
	}
}

func (s *sender) forget(o *owed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed[o.owedKey] == o {
		delete(s.owed, o.owedKey)
		s.restedLocked()
	}
}

func (s *sender) lateLocked(o *owed) {
	pause := min(firstMarkerPause<<min(o.failures, 10), longestMarkerPause)
	o.failures++
	o.retryAt = time.Now().Add(pause)
	s.late = append(s.late, o)
	s.retry.By(o.retryAt)
	s.restedLocked()
}

// again sends all late markers, because leaders may have changed, unless the sender is closing.
func (s *sender) again() { s.takeLate(func(*owed) bool { return true }) }

// dueAgain sends the late markers that are due.
func (s *sender) dueAgain() {
	now := time.Now()
	s.takeLate(func(o *owed) bool { return !now.Before(o.retryAt) })
}

func (s *sender) takeLate(wanted func(*owed) bool) {
	var taken []*owed
	s.mu.Lock()
	if s.rested != nil {
		s.mu.Unlock()
		return
	}
	s.late = slices.DeleteFunc(s.late, func(o *owed) bool {
		if wanted(o) {
			taken = append(taken, o)
			return true
		}
		s.retry.By(o.retryAt)
		return false
	})
	s.mu.Unlock()
	for _, o := range taken {
		s.direct(o)
	}
}
