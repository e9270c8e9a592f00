package log

// SubmitRun appends several batches in this order, as Submit does with one. They share one write,
// as far as the limits of a round and the segments allow. Each completes independently. If one of
// them is invalid, none is appended, and all complete with its error.
//
// The caller may reuse the slice when SubmitRun returns.
func (l *Log) SubmitRun(as []*Append) {
	if err := l.submitRun(as); err != nil {
		for _, a := range as {
			a.Err, a.BaseOffset, a.LastOffset = err, -1, -1
			a.complete()
		}
	}
}

// submitRun queues as. If no round is in progress, it leads one or has it led.
func (l *Log) submitRun(as []*Append) error {
	if len(as) == 0 {
		return nil
	}
	for _, a := range as {
		if err := l.prepare(a); err != nil {
			return err
		}
	}
	t := &l.token
	t.mu.Lock()
	if err := l.refusal(); err != nil {
		t.mu.Unlock()
		return err
	}
	for _, a := range as {
		t.appends.push(a)
	}
	lead := !t.held
	t.held = true
	t.mu.Unlock()
	switch {
	case !lead:
	case l.cfg.Load().Sync == SyncOnAck:
		t.writer.leadOnWorkerNext()
	default:
		r := rounds.Get().(*round)
		t.writer.takeQueued(r)
		t.writer.run(r)
		r.put()
		t.writer.leadNext(1)
	}
	return nil
}
