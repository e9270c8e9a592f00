package metalog

import (
	"context"
	"errors"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/image"
)

// Snapshots in the log itself keep the controller's log short. When the log has grown to several
// times the size of the current state, the state is written as one batch. A large state is a
// transaction of several batches. Its first record voids all earlier ones, which are then deleted.
// A crash in between leaves both the history and the snapshot, which lead to the same state.
// (Kafka writes snapshots to files beside the log.)

// DefaultSlack is the default number of bytes by which the log may outgrow its last snapshot: see
// Config.Slack.
const DefaultSlack = 1 << 20

// IsDue reports whether the log has grown enough for a snapshot.
func (m *Log) IsDue() bool {
	if m.cfg.Slack < 0 {
		return m.size > m.snapshot
	}
	return m.size-m.snapshot > max(m.cfg.Slack, 3*m.snapshot)
}

// Sizes returns the bytes of the log's batches, and the bytes of its last snapshot.
func (m *Log) Sizes() (all, snapshot int64) { return m.size, m.snapshot }

// Postpone makes the next snapshot due only after the log has grown as much again.
func (m *Log) Postpone() { m.snapshot = m.size }

// Snapshot writes a snapshot of the state and deletes the earlier part of the log, on all copies.
// img is the state before the snapshot. It returns the metadata version, or 0 if nothing was
// written.
func (m *Log) Snapshot(img *image.Image, state []metarecord.Record) (version int64, out *Fencing, err error) {
	for _, l := range byid.Range(m.copies) {
		if err := l.Roll(); err != nil { // so that all segments before the snapshot can be deleted
			return 0, nil, err
		}
	}
	first, before := m.Own().EndOffset(), m.size
	parts, err := m.split(state, "snapshot")
	if err != nil {
		return 0, nil, err
	}
	if len(parts) > 1 {
		var stuck map[int32]error
		if version, stuck, err = m.appendParts(parts); len(stuck) > 0 {
			var failed error
			out, failed = m.takeOutStuck(img, stuck)
			err = errors.Join(err, failed)
		}
	} else {
		version, out, err = m.Commit(img, state)
	}
	if err != nil {
		return 0, out, err
	}
	m.size -= before
	m.snapshot = m.size
	for _, l := range byid.Range(m.copies) {
		err = errors.Join(err, l.DeleteRecords(first))
		_, cleaned := l.Clean(context.Background())
		err = errors.Join(err, cleaned)
	}
	return version, out, err
}
