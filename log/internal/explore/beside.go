package explore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// follow appends args.n records, leaving out args.gap offsets, as a follower of a compacted log
// does.
func (w *world) follow(m *member, args Args) error {
	recs := w.take(m.index, int(max(args.Int("n"), 1)), 0)
	batch, err := batchOf(recs)
	if err != nil {
		return err
	}
	before := m.policyNow()
	l := m.log.Load()
	p := append([]byte(nil), batch...)
	offset := l.EndOffset() + args.Int("gap")
	record.SetBaseOffset(p, offset)
	e, ok := l.Epochs().Latest()
	if !ok { // a leader has always begun an epoch
		if err := w.setEpoch(m, nil); err != nil {
			return err
		}
		e, _ = l.Epochs().Latest()
	}
	record.SetLeaderEpoch(p, e)
	done := make(chan error, 1)
	l.Submit(&log.Append{Batch: p, KeepOffsets: true, LeaderEpoch: -1, Done: func(a *log.Append) {
		w.appended(m, before, recs, a.BaseOffset, a.Err)
		done <- a.Err
	}})
	err = <-done
	if overtaken := errors.Is(err, log.ErrOffsetOutOfRange) || errors.Is(err, log.ErrStaleEpoch); overtaken && w.overlap.Load() != 0 {
		return nil
	}
	return w.failed(m, err)
}

// reconfigure changes the settings that args name.
func (w *world) reconfigure(m *member, args Args) error {
	m.mu.Lock()
	cfg := configOf(args, m.cfg)
	if m.policy == log.SyncOnAck {
		m.policy = cfg.Sync // the weaker policy may apply from now on
	}
	m.mu.Unlock()
	err := m.log.Load().Reconfigure(cfg)
	m.mu.Lock()
	if err == nil {
		m.cfg, m.policy = cfg, cfg.Sync
	} else {
		m.policy = m.cfg.Sync
	}
	m.mu.Unlock()
	return w.failed(m, err)
}

// view reads the log through a read-only one beside the writer, which must not change anything.
func (w *world) view(m *member, args Args) error {
	before := w.known()
	guard := &guardFS{FaultFS: vfs.Faulty(w.fs)}
	stop := guard.watch()
	defer stop()
	l, err := log.OpenReadOnly(m.path, w.config(m, guard, nil, nil))
	if w.injected(err) != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	if err != nil {
		return nil
	}
	f, err := readLog(l)
	changes := []error{
		l.Sync(), l.Roll(), l.DeleteRecords(l.EndOffset()), l.TruncateTo(l.StartOffset()), l.TruncateFully(l.EndOffset()),
		l.WriteSnapshot(l.EndOffset(), []byte("x")), l.SetLeaderEpoch(1 << 20), l.Reconfigure(log.Config{}), l.RemoveSnapshot(l.EndOffset()),
	}
	for i, change := range changes {
		if !errors.Is(change, log.ErrReadOnly) {
			return fmt.Errorf("read-only: change %d returned %w", i, errors.Join(change, errors.New("not ErrReadOnly")))
		}
	}
	err = errors.Join(err, l.Close())
	if changed := guard.changed(); changed != "" {
		return fmt.Errorf("read-only, and did %s", changed)
	}
	if err != nil {
		return w.injected(err)
	}
	after := w.known()
	e := expect(after, len(before), m.index, 0, true)
	return e.check(f)
}

// guardFS records the last call that changes something.
type guardFS struct {
	*vfs.FaultFS

	mu  sync.Mutex // guards the field below
	bad string
}

func (g *guardFS) watch() (stop func()) {
	return g.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 {
			g.mu.Lock()
			g.bad = e.String()
			g.mu.Unlock()
		}
	}})
}

func (g *guardFS) changed() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bad
}

// openTwice tries to open the log once more, through its directory and without it.
func (w *world) openTwice(m *member, _ Args) error {
	for _, dir := range []*log.Directory{w.dir, nil} {
		l, err := log.Open(m.path, w.config(m, w.fs, dir, nil))
		if err == nil {
			_ = l.Close()
			return errors.New("opened twice")
		}
		if !errors.Is(err, log.ErrLocked) && w.injected(err) != nil {
			return fmt.Errorf("opened twice: %w", err)
		}
	}
	return w.check(m)
}

// backUp backs up the log and checks the copy.
func (w *world) backUp(m *member, _ Args) error {
	w.mu.Lock()
	name := fmt.Sprintf("/backup/%d-%d", m.index, w.backup)
	w.backup++
	w.mu.Unlock()
	before := len(w.known())
	w.add(fact{kind: backing, log: m.index, name: name})
	err := m.log.Load().Backup(context.Background(), nil, name)
	if err != nil {
		return w.failed(m, err)
	}
	after := w.known()
	w.add(fact{kind: backed, log: m.index, name: name, offset: int64(before)})
	return checkBackup(w.fs.Kill(), name, expect(after, before, m.index, 0, true))
}

// checkBackup checks that a backup opens without recovery and has the expected content.
func checkBackup(fsys *vfs.MemFS, name string, e *expectation) error {
	l, err := log.Open(name, log.Config{FS: fsys, RetentionAge: log.Unlimited})
	if err != nil {
		return fmt.Errorf("backup %s: open: %w", name, err)
	}
	f, err := readLog(l)
	if err == nil {
		err = e.check(f)
	}
	if !l.Recovery().Clean {
		err = errors.Join(err, fmt.Errorf("recovered: %+v", l.Recovery()))
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return fmt.Errorf("backup %s: %w", name, err)
	}
	return nil
}
