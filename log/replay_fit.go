package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/log/internal/journal"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// liveEntries returns the valid entries of a log, and their segment. Valid entries have the tag in
// the log's state. All others are void: since then the log was truncated, emptied, created again or
// closed, or it has synced its files and recorded that.
func liveEntries(fsys vfs.FS, dir, name string, entries []journal.Entry) (live []journal.Entry, base int64, err error) {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return nil, 0, nil
	}
	st, known, err := readState(fsys, filepath.Join(dir, name))
	if err != nil || !known || st.JournalTag == 0 || st.Emptied {
		return nil, 0, err
	}
	for _, e := range entries {
		if e.Tag == st.JournalTag {
			live = append(live, e)
		}
	}
	for _, s := range st.Segments {
		if s.Role.Belongs() {
			base = s.Base
		}
	}
	return live, base, nil
}

// misfit returns the reason why entries cannot have been appended to f, the active segment, whose
// base offset is base; "" if they can.
//
// After a crash the file has each of their bytes, or is torn there, or ends before. It cannot have
// another valid batch in the place of an entry, or end before the first of them. In that case the
// entries were written for another file: Kafka has recovered it and continued, or an older copy
// was put in its place.
func misfit(f vfs.File, base int64, entries []journal.Entry) (reason string, err error) {
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Base != base {
			return fmt.Sprintf("entry for segment %d, appended to is %d", e.Base, base), nil
		}
		if e.Pos > size {
			return fmt.Sprintf("segment %d ends at %d, before an entry at %d", base, size, e.Pos), nil
		}
		size = max(size, e.Pos+int64(len(e.Data)))
		if at, err := contradiction(f, e); err != nil || at >= 0 {
			return fmt.Sprintf("segment %d has another batch at %d", base, at), err
		}
	}
	return "", nil
}

// contradiction returns the position at which f has a valid batch other than e's in the same
// place; -1 if there is none. The bytes before the part that the CRC covers are not compared: a
// torn write may lack only these.
func contradiction(f vfs.File, e journal.Entry) (pos int64, err error) {
	there := make([]byte, len(e.Data))
	if n, err := f.ReadAt(there, e.Pos); err != nil && err != io.EOF || bytes.Equal(there[:n], e.Data) {
		return -1, ignoreEOF(err)
	}
	for at := 0; at < len(e.Data); {
		ours, size, err := record.Parse(e.Data[at:])
		if err != nil {
			return -1, nil // not ours to judge: the segment's recovery will
		}
		theirs, err := readBatch(f, e.Pos+int64(at))
		if err != nil {
			return -1, err
		}
		if theirs != nil && !bytes.Equal(theirs[coveredByCRC:], ours.Bytes()[coveredByCRC:]) {
			return e.Pos + int64(at), nil
		}
		at += size
	}
	return -1, nil
}

// readBatch returns the valid batch at pos, nil if there is none.
func readBatch(f vfs.File, pos int64) ([]byte, error) {
	head := make([]byte, record.HeaderSize)
	if n, err := f.ReadAt(head, pos); n < len(head) {
		return nil, ignoreEOF(err)
	}
	b, err := record.ParseHeader(head)
	if err != nil {
		return nil, nil
	}
	if size, err := f.Size(); err != nil || pos+int64(b.Size()) > size {
		return nil, err
	}
	whole := make([]byte, b.Size())
	if n, err := f.ReadAt(whole, pos); n < len(whole) {
		return nil, ignoreEOF(err)
	}
	if _, _, err := record.Parse(whole); err != nil {
		return nil, nil
	}
	return whole, nil
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// coveredByCRC is the position in a batch from which on the CRC, itself included, protects it.
const coveredByCRC = 17

// witness returns a number that changes when Kafka's files in dir change. A broker replaces them a
// minute after it was started, and when it is stopped; we replace them only when a directory is
// closed, without a journal.
func witness(fsys vfs.FS, dir string) (uint64, error) {
	h := xxhash.New()
	for _, name := range []string{recoveryPointFile, logStartFile, cleanShutdownFile} {
		p, err := vfs.ReadFile(fsys, filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		if name == cleanShutdownFile && err == nil {
			p = []byte("closed") // by Kafka: we had removed it when the journal was made
		}
		_, _ = fmt.Fprintf(h, "%d:", len(p))
		_, _ = h.Write(p)
	}
	return h.Sum64(), nil
}
