package replication

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/topic"
)

// ErrUnreachable is returned if a request to another broker, or its response, was lost on the
// Network: the request may have been carried out.
var ErrUnreachable = errors.New("replication: broker cannot be reached")

// A TxnMarker is a transaction marker to be written to one partition.
type TxnMarker struct {
	Partition record.TopicPartition
	TopicID   topic.ID // of Partition.Topic
	partition.TxnMarker
}

// A MarkerWriter writes a marker to a partition that broker leads, as WriteTxnMarkers does. It must
// not block, and calls done exactly once.
type MarkerWriter func(broker int32, m TxnMarker, done func(error))

// WriteMarkersWith registers w to write the markers for the partitions of an internal topic, until
// stop is called. It is for the coordinator whose state is in that topic, and which must process
// the markers in order. A later call for the same topic replaces w. It is safe for concurrent use.
func (c *Cluster) WriteMarkersWith(topic string, w MarkerWriter) (stop func()) {
	c.markerWriters.Store(topic, &w)
	return func() { c.markerWriters.CompareAndDelete(topic, &w) }
}

// HoldTransactionsWith registers hold as the implementation of HoldTransactions, until stop is
// called. hold calls its argument, which does not wait, while no transaction is decided or
// completed. The transaction coordinator registers it. A later call replaces hold. It is safe for
// concurrent use.
func (c *Cluster) HoldTransactionsWith(hold func(f func())) (stop func()) {
	c.holdTransactions.Store(&hold)
	return func() { c.holdTransactions.CompareAndSwap(&hold, nil) }
}

// HoldTransactions calls f while no transaction is decided, aborted for its timeout, or completed.
// f must not wait, and must not call the transaction coordinator: its requests wait for f.
func (c *Cluster) HoldTransactions(f func()) {
	if hold := c.holdTransactions.Load(); hold != nil {
		(*hold)(f)
	} else {
		f()
	}
}

// WriteTxnMarkers sends markers from the transaction coordinator on path.From to the broker
// path.To, which writes them to partitions that it leads. It waits as long as the path takes, at
// most until stop is closed, but does not wait for the writes. done is called exactly once for each
// marker, with its index in markers. Its error is nil when all in-sync replicas have the marker.
// done must not block; it is called without locks, possibly by WriteTxnMarkers itself. Kafka:
// WriteTxnMarkers.
//
// Errors passed to done: those of partition.EndTransaction, ErrUnknownTopic (also if the topic has
// another id), ErrNotLeader, ErrUnreachable and ErrClosed.
func (c *Cluster) WriteTxnMarkers(path NetworkPath, markers []TxnMarker, stop <-chan struct{}, done func(i int, err error)) {
	if path.From != path.To && c.network.Send(path, stop) != follow.Delivered {
		for i := range markers {
			done(i, unreachable(path))
		}
		return
	}
	for i, m := range markers {
		c.writeTxnMarker(path.To, m, func(err error) { c.answerTxnMarker(path, stop, err, func(err error) { done(i, err) }) })
	}
}

func unreachable(path NetworkPath) error {
	return fmt.Errorf("%w: from %d to %d", ErrUnreachable, path.From, path.To)
}

// answerTxnMarker sends a response back on path. done is called by the goroutine that made the
// response, unless the network needs time for it.
func (c *Cluster) answerTxnMarker(path NetworkPath, stop <-chan struct{}, err error, done func(error)) {
	back := NetworkPath{From: path.To, To: path.From}
	if path.From == path.To || !c.network.Impaired() {
		done(err)
		return
	}
	sent := c.run(func() {
		if c.network.Send(back, stop) != follow.Delivered {
			err = unreachable(back)
		}
		done(err)
	})
	if !sent {
		done(ErrClosed)
	}
}

func (c *Cluster) writeTxnMarker(broker int32, m TxnMarker, done func(error)) {
	r, err := c.leaderReplica(m.Partition, broker)
	if err == nil && r.id != m.TopicID {
		err = fmt.Errorf("%w: %q was deleted and created again", ErrUnknownTopic, m.Partition.Topic)
	}
	if err != nil {
		done(err)
		return
	}
	if w, ok := c.markerWriters.Load(m.Partition.Topic); ok {
		(*w.(*MarkerWriter))(broker, m, done)
		return
	}
	r.with(func(p *partition.Partition, err error) {
		if err != nil {
			done(err)
			return
		}
		p.EndTransaction(m.TxnMarker, func(res partition.ProduceResult) { done(res.Err) })
	})
}

// LeaderOfTopic is LeaderOf, but returns ErrUnknownTopic if the topic of that name has another id.
func (c *Cluster) LeaderOfTopic(tp record.TopicPartition, id topic.ID) (broker, epoch int32, err error) {
	t, p, err := c.find(tp)
	switch {
	case err != nil:
		return -1, -1, err
	case t.ID != id:
		return -1, -1, fmt.Errorf("%w: %q was deleted and created again", ErrUnknownTopic, tp.Topic)
	}
	return p.Leader, p.LeaderEpoch, nil
}
