package partition

import "time"

// All timeouts of a partition share one timer, which runs only while a request with a timeout is out, and one goroutine at
// most, when it fires. Requests are usually acknowledged long before: the timer is not stopped then, it finds nothing when it fires.
//
// A timeout counts from Produce, but ends nothing before the batch is written, since the log still reads its bytes: only from then on is it
// looked after, and not at all if the batch is acknowledged at once.

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

// armLocked sets the timer to the earliest deadline.
func (p *Partition) armLocked() {
	next, ok := p.deadlines.Min()
	if !ok || p.closed || p.armed && p.alarm <= next {
		return
	}
	p.alarm, p.armed = next, true
	wait := time.Duration(next) - time.Since(p.opened)
	switch {
	case p.timer == nil:
		p.timers.Add(1)
		p.timer = time.AfterFunc(wait, p.expire)
	case !p.timer.Reset(wait): // it was not running: this is another run
		p.timers.Add(1)
	}
}

// expire ends the requests whose time is up.
func (p *Partition) expire() {
	defer p.timers.Done()
	var d due
	p.mu.Lock()
	p.armed = false
	now := int64(time.Since(p.opened))
	for e := p.deadlines.Pop(now + 1); e != nil; e = p.deadlines.Pop(now + 1) {
		req := e.Value
		p.acks.Remove(&req.ack)
		req.settled = true
		req.result.Err = p.wrap("produce", ErrTimeout)
		d.add(req)
	}
	p.armLocked()
	p.mu.Unlock()
	d.run()
}
