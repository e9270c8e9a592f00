package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// verb returns an operation by its name; nil if there is none. An operation on the world gets a
// nil member.
func verb(name string) func(w *world, m *member, args Args) error {
	switch name {
	case "append":
		return (*world).appendOne
	case "burst":
		return (*world).burst
	case "spread":
		return (*world).spread
	case "follow":
		return (*world).follow
	case "sync":
		return (*world).sync
	case "roll":
		return (*world).roll
	case "delete":
		return (*world).deleteRecords
	case "truncate":
		return (*world).truncate
	case "restart":
		return (*world).restart
	case "clean":
		return (*world).clean
	case "remove":
		return (*world).removeLog
	case "epoch":
		return (*world).setEpoch
	case "reconfigure":
		return (*world).reconfigure
	case "view":
		return (*world).view
	case "lock":
		return (*world).openTwice
	case "backup":
		return (*world).backUp
	case "odd":
		return (*world).odd
	case "check":
		return (*world).checkNow
	case "reopen":
		return (*world).reopenNow
	case "sleep":
		return (*world).sleep
	case "crash":
		return (*world).crash
	case "fault":
		return (*world).fault
	case "heal":
		return (*world).healAll
	}
	return nil
}

// one runs one operation. A log that is not open is opened first, except while a fault is armed:
// then the operation is skipped.
func (w *world) one(o *Op) error {
	if o.Log < 0 {
		return verb(o.Verb)(w, nil, o.Args)
	}
	m := w.logs[o.Log%len(w.logs)]
	if m.log.Load() == nil && !w.faulty {
		if err := w.open(m); err != nil {
			return fmt.Errorf("open: %w", err)
		}
	}
	if m.log.Load() == nil {
		return nil
	}
	return verb(o.Verb)(w, m, o.Args)
}

// failed judges the error of an operation on a log. It returns nil if the error may occur and the
// log still has the expected content.
func (w *world) failed(m *member, err error) error {
	if err == nil || errors.Is(err, log.ErrRecordTooLarge) {
		return nil
	}
	if bad := w.injected(err); bad != nil {
		return bad
	}
	if w.overlap.Load() != 0 {
		return nil
	}
	return w.check(m)
}

// injected returns nil if err is nil or comes from an injected fault. The fault may be an earlier
// one that broke the log.
func (w *world) injected(err error) error {
	if err == nil {
		return nil
	}
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC, io.ErrShortWrite} {
		if errors.Is(err, cause) {
			return nil
		}
	}
	return err
}

// appendOne appends n records as one batch and waits for the confirmation.
func (w *world) appendOne(m *member, args Args) error {
	recs := w.take(m.index, int(max(args.Int("n"), 1)), time.Now().UnixMilli())
	var rs []record.Record
	for _, r := range recs {
		rs = append(rs, r.record())
	}
	before := m.policyNow()
	offset, err := m.log.Load().Append(context.Background(), rs...)
	w.appended(m, before, recs, offset, err)
	return w.failed(m, err)
}

func (m *member) policyNow() log.SyncPolicy {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy
}

// appended notes the result of an append.
func (w *world) appended(m *member, before log.SyncPolicy, recs []rec, offset int64, err error) {
	onAck := before == log.SyncOnAck && m.policyNow() == log.SyncOnAck
	f := fact{kind: written, log: m.index, id: recs[0].id, n: int64(len(recs)), offset: offset, durable: onAck}
	switch {
	case err != nil && m.log.Load().Err() != nil:
		return // the records may or may not be there
	case err != nil:
		f.kind = refused
	case onAck:
		f.kind = acked
	}
	w.add(f)
}

// burst submits several batches before it waits for any of them.
func (w *world) burst(m *member, args Args) error {
	return w.submit(int(args.Int("n")), m)
}

// spread submits several batches to each log at once, so that many logs need a sync.
func (w *world) spread(_ *member, args Args) error {
	var open []*member
	for _, m := range w.logs {
		if m.log.Load() != nil {
			open = append(open, m)
		}
	}
	return w.submit(int(args.Int("n")), open...)
}

// submit submits n batches to each of the logs before it waits for any of them.
func (w *world) submit(n int, ms ...*member) error {
	var wg sync.WaitGroup
	errs := make([]error, max(n, 1)*len(ms))
	for i := range errs {
		m := ms[i%len(ms)]
		recs := w.take(m.index, 1+i/len(ms)%3, time.Now().UnixMilli())
		batch, err := batchOf(recs)
		if err != nil {
			return err
		}
		before := m.policyNow()
		wg.Add(1)
		m.log.Load().Submit(&log.Append{Batch: batch, LeaderEpoch: -1, Done: func(a *log.Append) {
			defer wg.Done()
			w.appended(m, before, recs, a.BaseOffset, a.Err)
			errs[i] = a.Err
		}})
	}
	wg.Wait()
	for i, err := range errs {
		if err := w.failed(ms[i%len(ms)], err); err != nil {
			return err
		}
	}
	return nil
}

// batchOf builds a batch, with a codec that depends on its first record.
func batchOf(recs []rec) ([]byte, error) {
	var b record.Builder
	for _, r := range recs {
		one := r.record()
		b.Append(&one)
	}
	return b.Build([]record.Codec{record.None, record.LZ4, record.Zstd, record.None}[mix(recs[0].id)>>50%4])
}

func (w *world) sync(m *member, _ Args) error {
	l := m.log.Load()
	end := l.EndOffset()
	err := l.Sync()
	if err == nil && w.overlap.Load() == 0 {
		w.add(fact{kind: synced, log: m.index, offset: end})
	}
	return w.failed(m, err)
}

func (w *world) roll(m *member, _ Args) error { return w.failed(m, m.log.Load().Roll()) }

func (w *world) sleep(_ *member, args Args) error {
	time.Sleep(time.Duration(args.Int("ms")) * time.Millisecond)
	return nil
}

func (w *world) checkNow(m *member, _ Args) error { return w.check(m) }

func (w *world) reopenNow(m *member, _ Args) error { return w.reopen(m) }

func (w *world) setEpoch(m *member, _ Args) error {
	m.mu.Lock()
	m.epoch++
	e := m.epoch
	m.mu.Unlock()
	l := m.log.Load()
	err := l.SetLeaderEpoch(e)
	if err == nil {
		w.add(fact{kind: epoch, log: m.index, id: int64(e), offset: l.EndOffset()})
	}
	return w.failed(m, err)
}
