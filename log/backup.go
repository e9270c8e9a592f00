package log

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const (
	// partialSuffix ends the name of a copy that is being made: <dir>.<16 hex digits>.partial.
	partialSuffix = ".partial"
	// backupAttempts is the maximum number of copies of a log that is truncated during the copy.
	backupAttempts = 3
	// backupChunk is the number of bytes of a segment that are copied at a time.
	backupChunk = 1 << 20
)

// Backup copies the log, as of one instant during the call, to the directory dir of fsys, which
// must not exist or must be empty. A nil fsys means the log's own. Appends continue meanwhile;
// Clean waits, and Close ends the backup. The CRC of every batch is verified as it is copied.
//
// The copy shares nothing with the log, so neither can change the other. It is written beside dir,
// under the name dir.<random>.partial, synced, and renamed as a whole. If that name is too long for
// a file system, dir is cut in it. A crash at any time leaves a
// complete copy or none, and when Backup returns nil the copy survives a power failure. A directory
// that a crash left under a partial name is never opened as a log and can be removed. The copy
// opens as a cleanly closed log, and has all records of that instant, durable or not.
//
// Errors: an error matching fs.ErrExist if dir is not empty, or fs.ErrInvalid if it is ""; a
// *CorruptError for damage; ErrChanged if the log was truncated during each of three attempts;
// ErrClosed; ErrReadOnly; the sticky error of a broken log; the context's error; and errors of the
// file systems.
func (l *Log) Backup(ctx context.Context, fsys vfs.FS, dir string) error {
	if fsys == nil {
		fsys = l.cfg.Load().FS
	}
	err := l.refusal()
	if err == nil {
		err = checkVacant(fsys, dir)
	}
	if err != nil {
		return fmt.Errorf("backup %s: %w", l.path, err)
	}
	// Files that are replaced or removed in the meantime would stay on the disk until the copy is
	// complete.
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	for range backupAttempts {
		if err = l.backup(ctx, fsys, dir); !errors.Is(err, errChanged) {
			break
		}
		err = fmt.Errorf("%w: in the middle of each of %d attempts to copy it", ErrChanged, backupAttempts)
	}
	if err != nil {
		return fmt.Errorf("backup %s to %s: %w", l.path, dir, err)
	}
	return nil
}

// backup makes one attempt.
func (l *Log) backup(ctx context.Context, fsys vfs.FS, dir string) error {
	c, err := l.Cut()
	if err != nil {
		return err
	}
	defer c.Release()
	return c.copyTo(ctx, fsys, dir)
}

// checkVacant accepts a directory that does not exist or is empty.
func checkVacant(fsys vfs.FS, dir string) error {
	if dir == "" {
		return fmt.Errorf("%w: no directory is named", fs.ErrInvalid)
	}
	entries, err := vfs.ReadContent(fsys, dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: %w", dir, fs.ErrExist)
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyTo makes one attempt to copy the cut. It ends when the log is cut off at its end or closed.
func (c *Cut) copyTo(ctx context.Context, fsys vfs.FS, dir string) (err error) {
	watched := compactContext{ctx, c.l, c.cuts}
	var id [8]byte
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	partial := vfs.WithSuffix(filepath.Clean(dir), "."+hex.EncodeToString(id[:])+partialSuffix)
	defer func() {
		if err != nil {
			err = errors.Join(err, fsys.RemoveAll(partial))
		}
		if cause := watched.Err(); err != nil && cause != nil {
			err = errors.Join(cause, err) // err may be a consequence of it
		}
	}()
	plan, err := c.plan()
	if err != nil {
		return err
	}
	if err := vfs.MakeDir(fsys, partial, 0o700); err != nil {
		return err
	}
	if err := plan.write(watched, fsys, partial); err != nil {
		return err
	}
	if err := watched.Err(); err != nil { // truncated or closed: the last copied part may be incomplete
		return err
	}
	// Everything in partial is on stable storage. From the rename on the copy is there.
	if err := fsys.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.Rename(partial, dir); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(dir))
}

// A backupPlan lists the parts of the copy of a cut.
type backupPlan struct {
	l        *Log
	segments []*segment.Segment
	state    manifest.State    // of the copy
	small    map[string][]byte // files made for the copy: leader epochs, aborted transactions
	// files that do not change. A file that has been removed since is left out of the copy; the
	// open of the copy rebuilds it.
	large []largeFile
}

// A largeFile is copied as it is, unless the segment that it belongs to has left the log: another
// one may have the file's name then.
type largeFile struct {
	name string
	of   *segment.Segment // nil if it belongs to none
}

// plan lists the files of the copy. Appends wait for it, so it reads little.
func (c *Cut) plan() (*backupPlan, error) {
	l := c.l
	p := &backupPlan{l: l, segments: c.segments, small: map[string][]byte{}}
	p.state = manifest.State{Clean: true, Start: c.start, RecoveryPoint: c.end, End: c.end, Epochs: len(c.epochs) > 0, Identity: l.identity}
	p.state.Purged, p.state.PurgeID = c.purged.Below, c.purged.ID
	for _, s := range p.segments {
		p.state.Segments = append(p.state.Segments, manifest.Segment{Base: s.Base(), Size: s.Size()})
	}
	last := p.segments[len(p.segments)-1]
	size, err := last.Locate(c.end)
	if err != nil {
		return nil, err
	}
	p.state.Size = size
	p.state.Segments[len(p.segments)-1].Size = -1 // state.Size has it
	// With the token, so that the owner has received everything below the cut, and the transaction
	// index files are complete.
	err = l.exclusively(func(w *writer) error {
		if err := l.refusal(); err != nil {
			return err
		}
		return w.storeAborted()
	})
	if err != nil {
		return nil, err
	}
	if err := c.planIndexes(p); err != nil {
		return nil, err
	}
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return nil, err
	}
	for _, o := range offsets {
		if o <= c.end {
			p.large = append(p.large, largeFile{name: segment.FileName(o, snapshotSuffix)})
		}
	}
	if len(c.epochs) > 0 {
		p.small[epochFile] = epochText(c.epochs)
		p.state.EpochsHash = xxhash.Sum64(p.small[epochFile])
	}
	return p, nil
}

// planIndexes plans copies of the indexes of closed segments, and new transaction indexes with the
// entries whose markers are below the cut.
func (c *Cut) planIndexes(p *backupPlan) error {
	for i, s := range p.segments {
		aborted, _, err := s.Aborted(0, math.MaxInt64)
		if err != nil {
			return err
		}
		var entries []byte
		for _, t := range aborted {
			if t.LastOffset < c.end {
				entries = t.AppendTo(entries)
			}
		}
		p.state.Segments[i].Aborted = segment.AbortedSum(aborted[:markersBelow(aborted, c.end)])
		if len(entries) > 0 {
			p.small[segment.FileName(s.Base(), segment.TxnIndexSuffix)] = entries
		}
		if i == len(p.segments)-1 {
			break // its indexes may have entries of batches that are not in the copy
		}
		for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
			p.large = append(p.large, largeFile{segment.FileName(s.Base(), suffix), s})
		}
	}
	return nil
}

// write writes the copy, durable except for its directory's own name; the state comes last.
func (p *backupPlan) write(ctx context.Context, fsys vfs.FS, dir string) error {
	for i, s := range p.segments {
		size := p.state.Size
		if i < len(p.segments)-1 {
			size = p.state.Segments[i].Size
		}
		if err := copySegment(ctx, fsys, dir, s, size); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.small)) {
		if err := writeSynced(fsys, filepath.Join(dir, name), p.small[name]); err != nil {
			return err
		}
	}
	for _, f := range p.large {
		data, err := vfs.ReadFile(p.l.cfg.Load().FS, filepath.Join(p.l.path, f.name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && f.of != nil && f.of.Removed() {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = writeSynced(fsys, filepath.Join(dir, f.name), data)
		}
		if err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	return storeState(fsys, dir, p.state)
}

// copySegment copies the first size bytes of a segment, which are whole batches, checking each.
func copySegment(ctx context.Context, fsys vfs.FS, dir string, s *segment.Segment, size int64) (err error) {
	out, err := fsys.OpenFile(filePath(dir, s.Base(), segment.LogSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, 0, min(backupChunk, size))
	for pos := int64(0); pos < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := s.ReadRange(buf[:0], pos, int(min(backupChunk, size-pos)))
		if err != nil {
			return err
		}
		if len(p) == 0 || int64(len(p)) > size-pos {
			return io.ErrUnexpectedEOF // cut in the meantime
		}
		if err := checkBatches(s, p, pos); err != nil {
			return err
		}
		if _, err := out.WriteAt(p, pos); err != nil {
			return err
		}
		pos += int64(len(p))
	}
	return out.Sync()
}

// checkBatches checks the CRC of each batch of p, which was read at pos. A segment itself does so
// only when it reads a batch for the first time, so later damage on the disk would be copied.
func checkBatches(s *segment.Segment, p []byte, pos int64) error {
	for len(p) > 0 {
		_, size, err := record.Parse(p)
		if err != nil {
			h, _ := record.ParseHeader(p) // it was plausible when it was read
			return &CorruptError{Path: s.Path(), Pos: pos, Offset: h.BaseOffset, Reason: err.Error()}
		}
		p, pos = p[size:], pos+int64(size)
	}
	return nil
}

// writeSynced makes a file in a directory that is not in use yet.
func writeSynced(fsys vfs.FS, name string, data []byte) (err error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Sync()
}
