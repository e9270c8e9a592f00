package partition

// due has the results of a change of the watermarks. It is run after mu is released, since
// completions run callers' code.
type due struct {
	acked   *ProduceRequest // in order of offsets
	last    *ProduceRequest
	watches *watch
}

func (d *due) add(req *ProduceRequest) {
	if req.next = nil; d.acked == nil {
		d.acked = req
	} else {
		d.last.next = req
	}
	d.last = req
}

// run completes everything; without locks. The requests are decided.
func (d due) run() {
	for d.acked != nil {
		req := d.acked
		d.acked, req.next = req.next, nil // before Done: the caller may use the request again
		req.Done(req.result)
	}
	for d.watches != nil {
		x := d.watches
		d.watches, x.next = x.next, nil
		x.w.fire()
	}
}

// HighWatermark returns the offset below which every in-sync replica has the records, exclusive.
// With one replica it is the end of the log on stable storage under SyncOnAck, else the log end.
// Records below it never disappear (under the other sync policies, except by a power failure).
func (p *Partition) HighWatermark() int64 { return p.hw.Load() }

// LastStableOffset returns the offset below which every transaction is decided, exclusive. It is at
// most the high watermark.
func (p *Partition) LastStableOffset() int64 {
	_, lso, _ := p.bounds()
	return lso
}

// bounds returns both watermarks and the log start, start <= lso <= hw. A transaction whose
// beginning was deleted holds nothing back any more.
func (p *Partition) bounds() (hw, lso, start int64) {
	// In this order: each only grows, so a later read can only return a larger value.
	start = p.log.StartOffset()
	lso = p.lso.Load()
	hw = p.hw.Load()
	return max(hw, start), max(lso, start), start
}

// advanceLocked moves the high watermark to the given offset, if that is higher, and removes the
// requests and watches that waited for it.
func (p *Partition) advanceLocked(to int64) (d due) {
	oldHW, oldLSO := p.hw.Load(), p.lso.Load()
	hw := max(oldHW, to)
	if hw > oldHW {
		p.hw.Store(hw)
		p.growth.pass(hw)
		p.state.txns.advance(hw)
		for e := p.acks.Pop(hw); e != nil; e = p.acks.Pop(hw) {
			p.decideLocked(e.Value)
			d.add(e.Value)
		}
		d.watches = p.passWatches(&p.hwWatches, hw, true, d.watches)
	}
	if lso := p.state.txns.lastStable(hw); lso > oldLSO {
		p.lso.Store(lso)
		d.watches = p.passWatches(&p.lsoWatches, lso, oldLSO == oldHW && lso == hw, d.watches)
	}
	return d
}

// resume begins with a high watermark that was known before the replica was opened, or truncated,
// at most the log's end. It is called by Open, before other goroutines have the partition, or under
// mu.
func (p *Partition) resume(known int64) {
	start, end := p.log.StartOffset(), p.log.EndOffset()
	hw := min(max(known, start), end)
	p.hw.Store(hw)
	p.state.txns.advance(hw)
	p.lso.Store(max(p.state.txns.lastStable(hw), start))
}

// publish passes the high watermark to the log, whose retention stops there.
func (p *Partition) publish() { p.log.SetHighWatermark(p.hw.Load()) }
