package lifecycle

import (
	"errors"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// A simProducer is one process with the transactional id. It requests an identity, and then runs
// transactions. It has one request under way at a time, and repeats it if there is no answer.
type simProducer struct {
	s       *sim
	number  int
	me      Producer // ID -1: none yet
	seq     [3]int   // next write, by partition
	txn     *simTxn  // the open transaction; nil: none
	writes  int      // number of writes still to make
	doing   func()   // sends the request under way; nil: there is none
	attempt int      // number of its attempt: answers to earlier attempts are ignored
	added   bool     // the coordinator may have the open transaction
	writing bool     // the request under way is a write
	gaveUp  bool     // a write: before version 2 the sequences that follow are unknown
	dead    bool
}

func (s *sim) newProducer() {
	s.producers = append(s.producers, &simProducer{s: s, number: len(s.producers), me: Producer{-1, -1}})
	p := s.producers[len(s.producers)-1]
	p.init(Producer{-1, -1})
}

// request sends a request until it has been answered. The request may be answered more than once,
// and may arrive when the producer no longer waits for it.
func (p *simProducer) request(call func(answer func(value any, err error)), done func(value any, err error)) {
	p.doing = func() {
		if p.dead {
			return
		}
		p.attempt++
		attempt := p.attempt
		p.s.sendUnreliably(func() {
			if attempt != p.attempt {
				p.s.lateRequests++
			}
			call(func(value any, err error) {
				p.s.sendUnreliably(func() {
					if p.dead || attempt != p.attempt || p.doing == nil {
						return
					}
					p.doing = nil
					done(value, err)
				})
			})
		})
	}
	p.doing()
}

// withID repeats a request with a new producer id, as a machine's owner does.
func (s *sim) withID(event func(id *int64) Event, answer func(value any, err error)) {
	s.step(event(nil), func(value any, err error) {
		if errors.Is(err, ErrNoProducerID) {
			s.step(event(s.newID()), answer)
			return
		}
		answer(value, err)
	})
}

func (p *simProducer) init(had Producer) {
	s := p.s
	p.txn, p.seq, p.gaveUp = nil, [3]int{}, false
	p.request(func(answer func(any, error)) {
		s.withID(func(id *int64) Event {
			return EventInit{Timeout: time.Duration(30+s.r.IntN(60)) * time.Second, ProducerID: had.ID, Epoch: had.Epoch, NewID: id, To: 1}
		}, answer)
	}, func(value any, err error) {
		switch {
		case retriable(err):
			p.init(had)
		case err != nil:
			p.dead = true
		default:
			p.become(value.(Producer))
		}
	})
}

// become notes the identity: no two producers may ever have the same.
func (p *simProducer) become(me Producer) {
	owner, known := p.s.owners[me]
	p.s.require(!known || owner == p.number, "producers %d and %d are both %v", owner, p.number, me)
	p.s.require(me.Epoch <= lastEpoch, "somebody is %v", me)
	p.s.owners[me] = p.number
	if me != p.me {
		p.seq = [3]int{}
	}
	p.me = me
}

func retriable(err error) bool {
	return errors.Is(err, ErrConcurrent) || errors.Is(err, machine.ErrNotLeader) || errors.Is(err, machine.ErrTooLarge)
}

// goOn starts the next step, if no request is under way.
func (p *simProducer) goOn() {
	s := p.s
	switch {
	case p.dead || p.doing != nil || p.me.ID < 0:
	case p.txn == nil:
		p.txn, p.added = &simTxn{wrote: map[int]bool{}, outcome: map[int]string{}}, false
		s.txns = append(s.txns, p.txn)
		p.writes = s.r.IntN(5)
	case p.writes > 0:
		p.writes--
		p.write(s.r.IntN(3))
	default:
		p.end(len(p.txn.wrote) > 0 && s.r.IntN(4) > 0)
	}
}

func (p *simProducer) write(n int) {
	s, me := p.s, p.me
	p.added = true
	if s.version < epochBump {
		p.request(func(answer func(any, error)) {
			s.step(EventAdd{ProducerID: me.ID, Epoch: me.Epoch, Partitions: []record.TopicPartition{{Topic: "t", Partition: int32(n)}}, To: 1}, answer)
		}, func(_ any, err error) {
			switch {
			case retriable(err):
				p.write(n)
			case err != nil:
				p.fail(err)
			default:
				p.produce(n)
			}
		})
		return
	}
	p.produce(n)
}

func (p *simProducer) produce(n int) {
	s, me, txn, seq := p.s, p.me, p.txn, p.seq[n]
	p.writing = true
	p.request(func(answer func(any, error)) {
		s.parts[n].produce(s, me, txn, seq, func(err error) { answer(nil, err) })
	}, func(_ any, err error) {
		p.writing = false
		switch {
		case retriable(err):
			p.produce(n)
		case err != nil:
			p.fail(err)
		default:
			p.seq[n]++
			txn.wrote[n] = true
		}
	})
}

// fail handles an error that is not retriable: the producer gives up, aborts, or requests another
// epoch.
func (p *simProducer) fail(err error) {
	switch {
	// otherwise it needs another epoch
	case errors.Is(err, ErrAbortable) && p.s.version >= epochBump:
		p.end(false)
	case p.s.r.IntN(2) == 0:
		p.init(p.me)
	default:
		p.dead = true
	}
}

// giveUp is the step of a producer whose write is not answered in time: it aborts. The write may
// arrive later.
func (p *simProducer) giveUp() {
	p.doing, p.writing, p.gaveUp = nil, false, true
	p.end(false)
}

func (p *simProducer) end(commit bool) {
	s, me, txn := p.s, p.me, p.txn
	if s.version < epochBump && !p.added { // no transaction to end, as in Kafka's client
		p.txn = nil
		return
	}
	txn.askedCommit = commit
	p.request(func(answer func(any, error)) {
		if !s.lateEnd && (p.txn != txn || p.doing == nil) {
			return
		}
		s.withID(func(id *int64) Event {
			return EventEnd{ProducerID: me.ID, Epoch: me.Epoch, Commit: commit, Version: s.version, NewID: id, To: 1}
		}, answer)
	}, func(value any, err error) {
		switch {
		case retriable(err):
			p.end(commit)
			return
		case err != nil:
			p.txn = nil
			p.fail(err)
			return
		case commit:
			s.commits++
			txn.told = "commit"
		default:
			s.aborts++
			txn.told = "abort"
		}
		p.txn = nil
		if s.version >= epochBump {
			p.become(value.(Producer))
		} else if p.gaveUp { // continues in another epoch, unless it dies
			p.dead = s.r.IntN(2) == 0
			p.init(me)
		}
	})
}
