package producer

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// errDial is the error of a backend on a dead network. Like the timeouts of package net it matches
// context.DeadlineExceeded.
type errDial struct{}

func (errDial) Error() string        { return "dial tcp 192.0.2.1:9092: i/o timeout" }
func (errDial) Is(target error) bool { return target == context.DeadlineExceeded }
func (errDial) Retriable() bool      { return true }

// errPassword is the error of a backend that has refused the producer's credentials.
type errPassword struct{}

func (errPassword) Error() string   { return "SASL authentication failed" }
func (errPassword) Retriable() bool { return false }

// remote is a fake that may be out of reach.
type remote struct {
	*fake
	mu       sync.Mutex // guards the fields below
	calls    error      // error of all calls but Produce; nil: they succeed
	produce  error      // error of batches; nil: they are written
	topicErr error      // error of each topic in the metadata; nil: they are as they are
	hangs    bool       // calls for metadata fail once and then block
}

// set changes the state, and wakes the producer.
func (r *remote) set(change func()) {
	r.mu.Lock()
	change()
	r.mu.Unlock()
	r.change(func() {})
}

func (r *remote) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	r.mu.Lock()
	err, topicErr, hangs := r.calls, r.topicErr, r.hangs
	if hangs {
		r.calls = nil
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		return replication.Metadata{}, err
	case hangs:
		<-ctx.Done()
		return replication.Metadata{}, ctx.Err()
	}
	md, err := r.fake.Metadata(ctx, topics...)
	if topicErr != nil {
		for name := range md.Topics {
			md.Topics[name] = replication.TopicMetadata{Name: name, Err: topicErr}
		}
	}
	return md, err
}

func (r *remote) InitProducerID(ctx context.Context) (int64, int16, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls != nil {
		return 0, 0, r.calls
	}
	return r.fake.InitProducerID(ctx)
}

func (r *remote) Produce(req *partition.ProduceRequest) {
	r.mu.Lock()
	err := r.produce
	r.mu.Unlock()
	if err != nil {
		req.Done(partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: err})
		return
	}
	r.fake.Produce(req)
}

func (r *remote) setLeader(leader int32) {
	r.locked(func() { r.part("a", 0).leader = leader })
}

// withRemote runs a test in virtual time, with a producer that has written to topic "a".
func withRemote(t *testing.T, cfg Config, test func(t *testing.T, r *remote, p *Producer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &remote{fake: newFake(map[string]int{"a": 1})}
		p := newProducer(t, r, cfg)
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		test(t, r, p)
		r.setLeader(1)
		r.set(func() { r.calls, r.produce, r.topicErr, r.hangs = nil, nil, nil, false })
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err, "the backend can be reached again")
		require.NoError(t, p.Close())
	})
}

func TestTimeoutOfASendToABackendOutOfReachHasTheReason(t *testing.T) {
	requireReason := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, ErrTimeout)
		var dial errDial
		require.ErrorAs(t, err, &dial, err.Error())
	}
	withRemote(t, Config{MaxBlock: time.Second}, func(t *testing.T, r *remote, p *Producer) {
		r.set(func() { r.calls = errDial{} })
		_, err := p.Send(t.Context(), value("new", 0))
		requireReason(t, err)
		r.set(func() { r.hangs = true })
		_, err = p.Send(t.Context(), value("new", 0))
		requireReason(t, err)
	})
	withRemote(t, Config{MaxBlock: time.Second, MaxBufferedBytes: 2000}, func(t *testing.T, r *remote, p *Producer) {
		r.set(func() { r.produce = errDial{} })
		large := record.Record{Topic: "a", Value: make([]byte, 1500)}
		p.SendAsync(t.Context(), large, nil)
		_, err := p.Send(t.Context(), large)
		requireReason(t, err)
		require.ErrorContains(t, err, "are buffered")
	})
	withRemote(t, Config{BatchBytes: 1}, func(t *testing.T, r *remote, p *Producer) {
		r.set(func() { r.produce = errDial{} })
		_, err := p.Send(t.Context(), value("a", 0), value("a", 1))
		requireReason(t, err)
	})
	withRemote(t, Config{BatchBytes: 1}, func(t *testing.T, r *remote, p *Producer) {
		r.set(func() { r.produce = errDial{} })
		acks, _ := p.Send(t.Context(), value("a", 0), value("a", 1))
		requireReason(t, acks[1].Err) // of a batch that was never sent
	})
	withRemote(t, Config{}, func(t *testing.T, r *remote, p *Producer) {
		r.setLeader(-1)
		r.set(func() {})
		synctest.Wait()
		r.set(func() { r.calls = errDial{} })
		_, err := p.Send(t.Context(), value("a", 0))
		requireReason(t, err)
	})
	withRemote(t, Config{}, func(t *testing.T, r *remote, p *Producer) {
		pt := p.topics.get("a").view.Load().parts[0]
		pt.producerEpoch, pt.restart = math.MaxInt16, newEpoch
		r.set(func() { r.calls = errDial{} })
		_, err := p.Send(t.Context(), value("a", 0))
		requireReason(t, err)
	})
}

// The backend refuses the password after the producer has started, when a connection is made again.
func TestSendsEndSoonWhenTheBackendRefusesTheProducer(t *testing.T) {
	for name, change := range map[string]func(r *remote, p *Producer){
		"new topic": func(r *remote, _ *Producer) { r.calls = errPassword{} },
		"no leader": func(r *remote, _ *Producer) { r.calls = errPassword{} },
		"former leader": func(r *remote, _ *Producer) {
			r.calls, r.produce = errPassword{}, partition.ErrNotLeader
		},
		"answer is lost": func(r *remote, _ *Producer) {
			r.calls, r.produce = errPassword{}, errDial{}
		},
		"topic": func(r *remote, _ *Producer) { r.topicErr = errPassword{} },
		"producer id": func(r *remote, p *Producer) {
			pt := p.topics.get("a").view.Load().parts[0]
			pt.producerEpoch, pt.restart = math.MaxInt16, newEpoch
			r.calls = errPassword{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRemote(t, Config{}, func(t *testing.T, r *remote, p *Producer) {
				topic := "a"
				switch name {
				case "new topic":
					topic = "new"
				case "no leader":
					r.setLeader(-1)
					r.set(func() {})
					synctest.Wait()
				}
				r.set(func() { change(r, p) })
				synctest.Wait()
				for range 3 {
					began := time.Now()
					_, err := p.Send(t.Context(), value(topic, 0))
					var password errPassword
					require.True(t, errors.As(err, &password), "%v", err)
					require.NotErrorIs(t, err, ErrTimeout)
					require.Less(t, time.Since(began), 5*time.Second)
				}
			})
		})
	}
}
