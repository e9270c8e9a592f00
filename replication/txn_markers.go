package replication

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/topic"
)

// ErrUnreachable says that a request to another broker, or its answer, was lost on the Network: it
// may have been carried out.
var ErrUnreachable = errors.New("replication: broker cannot be reached")

// A TxnMarker is to be written into one partition.
type TxnMarker struct {
	Partition record.TopicPartition
	TopicID   topic.ID // the topic of that name that is meant
	partition.TxnMarker
}

// A MarkerWriter writes a marker into a partition that broker leads, as WriteTxnMarkers does: it
// must not block, and calls done once.
type MarkerWriter func(broker int32, m TxnMarker, done func(error))

// WriteMarkersWith has the markers for partitions of an internal topic written by w, who keeps the
// state that is in them and must know its order, until stop is called. The last call for a topic
// counts. It is safe for concurrent use.
func (c *Cluster) WriteMarkersWith(topic string, w MarkerWriter) (stop func()) {
	c.markerWriters.Store(topic, &w)
	return func() { c.markerWriters.CompareAndDelete(topic, &w) }
}

// HoldTransactionsWith has hold called by HoldTransactions, until stop is called: it calls its
// argument, which does not wait, while no transaction is decided and none is completed. The
// coordinator of transactions does so. The last call counts. It is safe for concurrent use.
func (c *Cluster) HoldTransactionsWith(hold func(f func())) (stop func()) {
	c.holdTransactions.Store(&hold)
	return func() { c.holdTransactions.CompareAndSwap(&hold, nil) }
}

// HoldTransactions calls f while no transaction is decided, aborted for its timeout, or completed.
// f must not wait, nor ask the coordinator of transactions for anything: its requests wait for f.
func (c *Cluster) HoldTransactions(f func()) {
	if hold := c.holdTransactions.Load(); hold != nil {
		(*hold)(f)
	} else {
		f()
	}
}

// WriteTxnMarkers has the broker path.To write markers into partitions that it leads, as the
// transaction coordinator on path.From asks it to. It waits as long as the path takes, and no
// longer than until stop is closed, but not until they are written: done is called exactly once
// for each of markers, with its index, when all replicas in sync have it, or with why that is not
// known. done may be called by WriteTxnMarkers itself, must not block, and is called without
// locks. Kafka: WriteTxnMarkers.
//
// Errors: those of partition.EndTransaction, ErrUnknownTopic (also if the topic has another id),
// ErrNotLeader, ErrUnreachable, ErrClosed.
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

// answerTxnMarker sends an answer back on path. done is called by whoever has made it, unless the
// network needs time for it.
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

// LeaderOfTopic is LeaderOf for the topic of that name that has an id: without it, ErrUnknownTopic.
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
