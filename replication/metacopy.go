package replication

import (
	"fmt"
	"path/filepath"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/topic"
)

// A metaCopy is a broker's copy of the metadata log.
type metaCopy struct{ *log.Log }

// metaDir is the directory of a broker's copy of the metadata log.
func (n *node) metaDir() string { return filepath.Join(n.root, topic.MetadataTopic+"-0") }

// openCopy opens the broker's copy of the metadata log, creating it.
func (n *node) openCopy() (*metaCopy, error) {
	cfg := n.base.Log
	cfg.Sync = log.SyncOnAck
	cfg.Cleanup = log.CleanupNone
	cfg.RetentionAge = log.Unlimited
	cfg.MaxBatchBytes = maxMetaBatchBytes
	l, err := log.Open(n.metaDir(), cfg)
	if err != nil {
		return nil, openError(n.metaDir(), err)
	}
	return &metaCopy{l}, nil
}

// A sourceError says that it was the leader's copy that could not be read.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// follow makes the copy equal to the leader's: what they do not have in common is cut, what is
// missing is appended as it is.
func (m *metaCopy) follow(leader *metaCopy) error {
	// Also at the end: an epoch that began there, and that nothing was written in, is not the
	// leader's.
	if err := m.TruncateTo(controller.Part(leader.Epochs(), m.Epochs(), m.EndOffset())); err != nil {
		return err
	}
	if start := leader.StartOffset(); m.EndOffset() < start {
		if err := m.TruncateFully(start); err != nil {
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
