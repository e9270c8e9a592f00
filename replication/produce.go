package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Produce passes the request to the leader of its partition. Requests for one partition keep the
// order of the calls. Produce does not wait; req.Done is called exactly once. Errors in Done are
// those of package partition, ErrUnknownTopic (also if the topic has another id than the request),
// ErrNotLeader (nothing was appended), partition.ErrNotLeaderAfterAppend (the records may be
// appended), and ErrClosed. partition.ErrClosed means that the topic was deleted or the cluster was
// closed during the call: fetch the metadata again.
func (c *Cluster) Produce(req *partition.ProduceRequest) { c.produce(req, anyBroker) }

func (c *Cluster) produce(req *partition.ProduceRequest, asked int32) {
	c.stats.produces.Add(1)
	r, err := c.leaderReplica(req.TopicPartition, asked)
	if err == nil && req.TopicID != (topic.ID{}) && req.TopicID != r.id {
		err = fmt.Errorf("%w: %q was deleted and created again", ErrUnknownTopic, req.TopicPartition.Topic)
	}
	if err != nil {
		refuse(req, err)
		return
	}
	if p := r.part.Load(); p != nil {
		p.Produce(req)
		return
	}
	r.with(func(p *partition.Partition, err error) {
		if err != nil {
			refuse(req, err)
			return
		}
		p.Produce(req)
	})
}

func refuse(req *partition.ProduceRequest, err error) {
	req.Done(partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: err})
}

// Partition returns the leader replica of tp. It opens the replica, and creates its files if there
// are none. It is meant for coordinators that keep their state in a partition. The replica is valid
// until the topic is deleted, the cluster is closed, or its broker ends, after which it returns
// ErrNotLeader. Partition blocks until the replica is open.
func (c *Cluster) Partition(tp record.TopicPartition) (*partition.Partition, error) {
	return c.openLeader(tp, anyBroker)
}

func (c *Cluster) openLeader(tp record.TopicPartition, asked int32) (*partition.Partition, error) {
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return nil, err
	}
	type opened struct {
		p   *partition.Partition
		err error
	}
	ch := make(chan opened, 1)
	r.with(func(p *partition.Partition, err error) { ch <- opened{p, err} })
	o := <-ch
	return o.p, o.err
}

// Written reports whether the partition has files. It gets them with its first append or call of
// Partition. A partition without files is empty.
func (c *Cluster) Written(tp record.TopicPartition) (bool, error) {
	return c.isWritten(tp, anyBroker)
}

func (c *Cluster) isWritten(tp record.TopicPartition, asked int32) (bool, error) {
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return false, err
	}
	p, err := r.state()
	return p != nil, err
}

// await runs fn, which blocks for a disk, and returns its error, or the context's if that ends
// first; then fn continues.
func (c *Cluster) await(ctx context.Context, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	result := make(chan error, 1)
	if !c.run(func() { result <- fn() }) {
		return ErrClosed
	}
	return outcome(ctx, result)
}

// outcome returns the next result, or the context's error if ctx ends first. If there are both, it
// returns the result.
func outcome(ctx context.Context, result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	default:
		return ctx.Err()
	}
}
