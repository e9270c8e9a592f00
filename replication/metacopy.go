package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A metaCopy is a broker's copy of the metadata log.
type metaCopy struct {
	*log.Log
	fs   vfs.FS
	root string // the broker's directory
	kept int32  // what is in promiseFile, -1 if there is none
}

// promiseFile in a broker's directory holds a controller's epoch that began on the broker's copy
// and that the copy may not show any more. It is written before a cut takes such an epoch off the
// copy, and nothing was written in it: the epoch must not begin a second time, since another
// controller may have written in it on other copies.
//
//	epoch=7
const promiseFile = "strata.epoch"

// metaDir is the directory of a broker's copy of the metadata log.
func (n *node) metaDir() string { return filepath.Join(n.root, topic.MetadataTopic+"-0") }

// openCopy opens the broker's copy of the metadata log, creating it.
func (n *node) openCopy() (*metaCopy, error) { return n.openCopyIn(n.metaDir()) }

func (n *node) openCopyIn(dir string) (*metaCopy, error) {
	cfg := n.base.Log
	cfg.Sync = log.SyncOnAck
	cfg.Cleanup = log.CleanupNone
	cfg.RetentionAge = log.Unlimited
	cfg.MaxBatchBytes = maxMetaBatchBytes
	m := &metaCopy{fs: n.fs, root: n.root}
	var err error
	if m.kept, err = readPromise(n.fs, n.root); err != nil {
		return nil, err
	}
	if m.Log, err = log.Open(dir, cfg); err != nil {
		return nil, openError(dir, err)
	}
	return m, nil
}

// readPromise returns the epoch in promiseFile, -1 if there is none.
func readPromise(fsys vfs.FS, root string) (int32, error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(root, promiseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", promiseFile, err)
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(p)), "epoch=")
	epoch, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil || epoch < 0 {
		return 0, directoryError(root, ErrDamaged, fmt.Errorf("%s: %q", promiseFile, p))
	}
	return int32(epoch), nil
}

// promised returns the newest controller's epoch that ever began on the copy, -1 if none did.
func (m *metaCopy) promised() int32 {
	latest, _ := m.Epochs().Latest()
	return max(latest, m.kept)
}

// state returns how far the copy goes.
func (m *metaCopy) state(broker int32) controller.Copy {
	c := controller.Copy{Broker: broker, Epoch: -1, End: m.EndOffset()}
	if c.End > m.StartOffset() {
		c.Epoch = m.Epochs().At(c.End - 1)
	}
	return c
}

// cut truncates the copy to an offset. If that takes its newest epoch off it, the promise that this
// one does not begin again is durable before.
func (m *metaCopy) cut(to int64) error {
	if m.Epochs().At(to-1) != m.promised() {
		if err := m.keepPromise(); err != nil {
			return err
		}
	}
	return m.TruncateTo(to)
}

// restart is cut of a copy that ends before the others begin: it goes on at start, with nothing in
// it.
func (m *metaCopy) restart(start int64) error {
	if err := m.keepPromise(); err != nil {
		return err
	}
	return m.TruncateFully(start)
}

// keepPromise makes the newest epoch that began on the copy durable in promiseFile.
func (m *metaCopy) keepPromise() error {
	epoch := m.promised()
	if epoch == m.kept {
		return nil
	}
	if err := vfs.WriteFile(m.fs, filepath.Join(m.root, promiseFile), fmt.Appendf(nil, "epoch=%d\n", epoch)); err != nil {
		return fmt.Errorf("write %s: %w", promiseFile, err)
	}
	m.kept = epoch
	return nil
}

// A sourceError says that it was the leader's copy that could not be read.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// follow makes the copy equal to the leader's: what they do not have in common is cut, what is
// missing is appended as it is.
func (m *metaCopy) follow(leader *metaCopy) error {
	// Also at the end: an epoch that began there, and that nothing was written in, is not the
	// leader's.
	if err := m.cut(controller.Part(leader.Epochs(), m.Epochs(), m.state(0))); err != nil {
		return err
	}
	if start := leader.StartOffset(); m.EndOffset() < start {
		if err := m.restart(start); err != nil {
			return err
		}
	}
	var buf []byte
	for next := m.EndOffset(); next < leader.EndOffset(); next = m.EndOffset() {
		var err error
		if buf, err = leader.Read(buf[:0], next, 1<<20); err != nil {
			return &sourceError{err}
		}
		for rest := buf; len(rest) > 0; {
			_, n, err := record.Parse(rest)
			if err != nil {
				return err
			}
			if err := appendWhole(m.Log, &log.Append{Batch: rest[:n:n], LeaderEpoch: -1, KeepOffsets: true}); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if m.EndOffset() == next {
			return fmt.Errorf("%w: nothing at offset %d", log.ErrCorrupt, next)
		}
	}
	return m.DeleteRecords(leader.StartOffset())
}

// appendWhole appends one batch and waits for it.
func appendWhole(l *log.Log, a *log.Append) error {
	done := make(chan struct{})
	a.Done = func(*log.Append) { close(done) }
	l.Submit(a)
	<-done
	return a.Err
}
