package replication

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// metaLog is the controller's log, __cluster_metadata-0: a log like any other whose records are
// those of package metarecord. Every change is one batch, so it happens wholly or not at all. The
// leader epoch of the log is the controller's epoch.
type metaLog struct {
	log     *log.Log
	builder record.Builder

	size     int64 // bytes of the log's batches
	snapshot int64 // bytes of the last snapshot
	slack    int64
}

// maxMetaBatchBytes bounds one change; the largest allowed creation of partitions takes about a
// megabyte.
const maxMetaBatchBytes = 16 << 20

// openMetaLog opens the log and applies what is in it to img, which it publishes. The errors about
// its contents are *DirectoryErrors.
func openMetaLog(dir string, cfg log.Config, img *image, slack int64) (*metaLog, error) {
	cfg.Sync = log.SyncOnAck
	cfg.Cleanup = log.CleanupNone
	cfg.RetentionAge = log.Unlimited
	cfg.MaxBatchBytes = maxMetaBatchBytes
	l, err := log.Open(dir, cfg)
	if err != nil {
		return nil, openError(dir, err)
	}
	m := &metaLog{log: l, slack: slack}
	if err := m.replay(dir, img); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	epoch, _ := l.Epochs().Latest()
	if err := l.SetLeaderEpoch(epoch + 1); err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata log: %w", err), l.Close())
	}
	return m, nil
}

// openError turns what package log has against a directory into a DirectoryError.
func openError(dir string, err error) error {
	switch {
	case errors.Is(err, log.ErrLocked):
		return directoryError(dir, ErrLocked, err)
	case errors.Is(err, log.ErrNewerFormat):
		return directoryError(dir, ErrNewerFormat, err)
	case errors.Is(err, log.ErrCorrupt), errors.Is(err, log.ErrMissingSegment):
		return directoryError(dir, ErrDamaged, err)
	}
	return fmt.Errorf("open %s: %w", dir, err)
}

// replay applies the whole log to img. One that does not begin at offset 0 begins with a snapshot.
func (m *metaLog) replay(dir string, img *image) error {
	l := m.log
	start := l.StartOffset()
	for b, err := range l.Batches(start) {
		if err != nil {
			return directoryError(dir, ErrDamaged, err)
		}
		if err := m.replayBatch(b, img); err != nil {
			reason := ErrDamaged
			if errors.As(err, new(*metarecord.UnknownError)) {
				reason = ErrNewerFormat
			}
			return directoryError(dir, reason, err)
		}
	}
	if start > 0 && l.EndOffset() == start {
		return directoryError(dir, ErrDamaged, fmt.Errorf("metadata log is empty, and starts at offset %d", start))
	}
	img.publish(l.EndOffset())
	return nil
}

// replayBatch applies one batch.
func (m *metaLog) replayBatch(b *record.Batch, img *image) error {
	m.size += int64(b.Size())
	if b.IsControl() {
		return nil
	}
	it, err := b.Records(0)
	if err != nil {
		return fmt.Errorf("metadata log at offset %d: %w", b.BaseOffset, err)
	}
	var r record.Record
	for {
		switch more, err := it.Next(&r); {
		case err != nil:
			return fmt.Errorf("metadata log at offset %d: %w", b.BaseOffset, err)
		case !more:
			return nil
		}
		snapshot, err := applyValue(img, r.Value)
		if snapshot {
			m.size, m.snapshot = int64(b.Size()), int64(b.Size())
		}
		if start := m.log.StartOffset(); err == nil && r.Offset == start && start > 0 && !snapshot {
			err = errors.New("what came before is gone, and no snapshot says what it was")
		}
		if err != nil {
			return fmt.Errorf("metadata log at offset %d: %w", r.Offset, err)
		}
	}
}

func applyValue(img *image, value []byte) (snapshot bool, err error) {
	rec, err := metarecord.Parse(value)
	if err != nil {
		return false, err
	}
	n, ok := rec.(*metarecord.NoOp)
	return ok && n.Snapshot, img.apply(rec)
}

// append writes one change and returns the metadata version after it, once it is on stable storage.
// It is called by one goroutine at a time. An error leaves open whether the change will be there
// after the next open.
func (m *metaLog) append(recs []metarecord.Record) (version int64, err error) {
	now := time.Now().UnixMilli()
	m.builder.Reset(0)
	var value []byte
	for _, rec := range recs {
		value = metarecord.Append(value[:0], rec)
		m.builder.AppendKV(now, nil, value, nil)
	}
	batch, err := m.builder.Build(record.None)
	if err != nil {
		return 0, fmt.Errorf("write metadata: %w", err)
	}
	done := make(chan *log.Append, 1)
	m.log.Submit(&log.Append{Batch: batch, LeaderEpoch: -1, Done: func(a *log.Append) { done <- a }})
	a := <-done
	if a.Err != nil {
		return 0, fmt.Errorf("write metadata: %w", a.Err)
	}
	m.size += int64(len(batch))
	return a.LastOffset + 1, nil
}

func (m *metaLog) epoch() int32 {
	epoch, _ := m.log.Epochs().Latest()
	return epoch
}
