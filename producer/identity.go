package producer

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/stratalog/strata/internal/retriable"
)

// identity is the producer id that partitions use when they start their sequence numbers.
//
// Each partition has its own id, epoch and next sequence: the leader stores them per partition, so
// a restart on one of them does not affect the others.
type identity struct {
	mu       sync.Mutex // guards the fields below; not held during a request for a new id
	known    bool
	id       int64
	epoch    int16
	fetching bool
	err      error             // of the last request for another id; nil: it succeeded
	waiting  []*partitionQueue // to be notified of the new id
}

func (i *identity) current() (id int64, epoch int16, known bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id, i.epoch, i.known
}

func (i *identity) set(id int64, epoch int16) (waiting []*partitionQueue) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.id, i.epoch, i.known, i.fetching, i.err = id, epoch, true, false, nil
	waiting, i.waiting = i.waiting, nil
	return waiting
}

// failed records that a request for another id has failed. If err is final it returns the
// partitions that wait for the id, and the next anotherID makes another request.
func (i *identity) failed(err error) (waiting []*partitionQueue) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.err = err
	if retriable.Final(err) {
		waiting, i.waiting, i.fetching = i.waiting, nil, false
	}
	return waiting
}

func (i *identity) lastError() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.err
}

// ensureID gets the first producer id, if the producer is idempotent.
func (p *Producer) ensureID(ctx context.Context, c *sendCall) error {
	if _, _, known := p.ids.current(); known || !p.cfg.idempotent || p.txn != nil {
		return nil
	}
	return p.await(ctx, "producer id", c, func(ctx context.Context) (int64, error) {
		id, epoch, err := p.backend.InitProducerID(ctx)
		// of two concurrent results the later is dropped
		if _, _, known := p.ids.current(); err == nil && !known {
			p.ids.set(id, epoch)
		}
		return 0, err
	})
}

// anotherID returns a producer id other than old. If there is none yet it requests one, and pt is
// drained when that has arrived.
func (p *Producer) anotherID(pt *partitionQueue, old int64) (id int64, epoch int16, ok bool) {
	i := &p.ids
	i.mu.Lock()
	if i.id != old {
		defer i.mu.Unlock()
		return i.id, i.epoch, true
	}
	i.waiting = append(i.waiting, pt)
	fetch := !i.fetching
	i.fetching = true
	i.mu.Unlock()
	if fetch {
		p.spawn(p.fetchID)
	}
	return 0, 0, false
}

// fetchID requests a new producer id until there is one or the producer has ended. After a final
// error it fails the batches that wait for the id.
func (p *Producer) fetchID() {
	for failures := 0; p.living.Err() == nil; failures++ {
		id, epoch, err := p.backend.InitProducerID(p.living)
		if err == nil {
			for _, pt := range p.ids.set(id, epoch) {
				pt.named()
			}
			return
		}
		p.cfg.Logger.Warn("producer gets no new producer id", slog.Any("err", err))
		waiting := p.ids.failed(err)
		for _, pt := range waiting {
			pt.abort(fmt.Errorf("producer id: %w", err))
			pt.named()
		}
		if retriable.Final(err) {
			return
		}
		p.pause(p.living, failures)
	}
}

// restart is the reason why a partition has to restart its sequence numbers.
type restart uint8

const (
	noRestart restart = iota
	// some sequence numbers will never be used: the leader would see a gap
	newEpoch
	newID // the epochs are used up, or another producer has a newer one
)

// restartLocked gives pt a new epoch, or another id if there is no further epoch, with sequence
// numbers from 0. All batches must be known not to be in the log. It returns false if it has to
// wait for an id.
func (pt *partitionQueue) restartLocked() bool {
	if pt.restart == newEpoch && pt.producerEpoch == math.MaxInt16 {
		pt.restart = newID
	}
	if pt.restart == newID {
		id, epoch, ok := pt.p.anotherID(pt, pt.producerID)
		if !ok {
			pt.unnamed = true
			return false
		}
		pt.producerID, pt.producerEpoch = id, epoch
	} else {
		pt.producerEpoch++
	}
	pt.restart, pt.unnamed, pt.confirmed, pt.sequence = noRestart, false, false, 0
	for b := pt.head; b != nil; b = b.next {
		b.sequenced = false
	}
	pt.p.stats.bumps.Add(1)
	pt.p.cfg.Logger.Info("producer starts a new epoch", slog.String("topic", pt.topic), slog.Int("partition", int(pt.index)),
		slog.Int64("producer_id", pt.producerID), slog.Int("producer_epoch", int(pt.producerEpoch)))
	return true
}

// named continues pt after a new producer id has arrived.
func (pt *partitionQueue) named() {
	pt.mu.Lock()
	pt.unnamed = false
	drain := pt.claimLocked()
	pt.mu.Unlock()
	if drain {
		pt.p.sender.hand(pt)
	}
}

// assignLocked gives b its sequence numbers, once per epoch.
func (pt *partitionQueue) assignLocked(b *batch) {
	if b.sequenced || !pt.p.cfg.idempotent {
		return
	}
	if pt.producerID < 0 {
		pt.producerID, pt.producerEpoch, _ = pt.p.ids.current()
	}
	b.sequenced = true
	b.producerID, b.producerEpoch, b.sequence = pt.producerID, pt.producerEpoch, pt.sequence
	pt.sequence = addSequence(pt.sequence, b.count)
}

// addSequence wraps to 0 after 2^31-1.
func addSequence(s, n int32) int32 { return int32((int64(s) + int64(n)) & math.MaxInt32) }
