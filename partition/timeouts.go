package partition

import "time"

// All timeouts of a partition share one alarm, which is armed only while a request with a timeout
// is out. Requests are usually acknowledged long before: it is not disarmed then, it finds nothing
// when it fires.
//
// A timeout counts from Produce, but ends nothing before the batch is written, since the log still
// reads its bytes: only from then on is it looked after, and not at all if the batch is
// acknowledged at once.

// expireLocked has req, which is written, end when its time is up.
func (p *Partition) expireLocked(req *ProduceRequest) {
	if req.Timeout <= 0 || req.timed || p.closed {
		return
	}
	req.timed = true
	req.deadline.Value = req
	p.deadlines.Add(&req.deadline, int64(req.expires))
	p.armLocked()
}

// armLocked has expire called at the earliest deadline.
func (p *Partition) armLocked() {
	if next, ok := p.deadlines.Min(); ok {
		p.timeouts.By(p.opened.Add(time.Duration(next)))
	}
}

// expire ends the requests whose time is up.
func (p *Partition) expire() {
	var d due
	p.mu.Lock()
	now := int64(time.Since(p.opened))
	for e := p.deadlines.Pop(now + 1); e != nil; e = p.deadlines.Pop(now + 1) {
		req := e.Value
		p.acks.Remove(&req.ack)
		req.decided = true
		req.result.Err = p.wrap("produce", ErrTimeout)
		d.add(req)
	}
	p.armLocked()
	p.mu.Unlock()
	d.run()
}
