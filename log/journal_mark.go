package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/log/internal/journal"
	"github.com/stratalog/strata/vfs"
)

// markFile exists as long as the journal of its directory may have acknowledged records that the
// logs' files lack. It is on stable storage before the first entry of the journal, and its removal
// before the journal's. So the lack of a journal beside it is damage, unless the machine runs since.
const markFile = "strata.journaled"

// A journalMark is the content of a markFile: one line, which ends with its xxhash64. The zero
// journalMark means that there is no such file.
type journalMark struct {
	there   bool
	whole   bool // the fields below are known
	id      uint64
	witness uint64
	boot    string // run of the machine; "" means unknown
}

const markVersion = 1

func (m *journalMark) text() []byte {
	line := fmt.Sprintf("journal %d %016x %016x %q", markVersion, m.id, m.witness, m.boot)
	return fmt.Appendf(nil, "%s %016x\n", line, xxhash.Sum64String(line))
}

// readJournalMark reads the markFile in dir. A damaged one counts as one without content.
func readJournalMark(fsys vfs.FS, dir string) (m journalMark, err error) {
	p, err := readIfThere(fsys, filepath.Join(dir, markFile))
	if err != nil || p == nil {
		return m, err
	}
	m.there = true
	line, ok := strings.CutSuffix(string(p), "\n")
	at := strings.LastIndexByte(line, ' ')
	if !ok || at < 0 || line[at+1:] != fmt.Sprintf("%016x", xxhash.Sum64String(line[:at])) {
		return m, nil
	}
	version := 0
	n, _ := fmt.Sscanf(line[:at], "journal %d %x %x %q", &version, &m.id, &m.witness, &m.boot)
	m.whole = n == 4 && version == markVersion
	return m, nil
}

// isOf reports whether the mark can be of the journal with this header.
func (m *journalMark) isOf(h *journal.Header) bool { return !m.there || !m.whole || m.id == h.ID }

// doubt returns the error of a directory with this mark that lacks the journal of the mark; nil if
// nothing can be missing. In the same run of the machine the files have all bytes. A journal from
// before another broker's work is not replayed.
func (m *journalMark) doubt(fsys vfs.FS, dir string) error {
	if !m.there || m.whole && m.boot != "" && m.boot == fsys.BootID() {
		return nil
	}
	if m.whole {
		seen, err := witness(fsys, dir)
		if err != nil || m.witness != seen {
			return err
		}
	}
	return &CorruptError{Path: filepath.Join(dir, journalFile), Offset: -1, Reason: "the journal that was in use is missing; " +
		"it may be the only place of acknowledged records: restore it, or remove " + markFile + " beside it to give them up"}
}

// missingBeside is doubt for the log in dir/name alone: nothing is missing in a log that was closed
// in order. h is the header of the journal in dir, nil if there is none.
func missingBeside(fsys vfs.FS, dir, name string, h *journal.Header) error {
	m, err := readJournalMark(fsys, dir)
	if err != nil || h != nil && m.isOf(h) {
		return nil // an unreadable mark is no damage of the log
	}
	doubt := m.doubt(fsys, dir)
	if doubt == nil {
		return nil
	}
	st, known, err := readState(fsys, filepath.Join(dir, name))
	if err != nil || !known || st.Clean || st.JournalTag == 0 {
		return nil // the log's own open reports an error
	}
	return doubt
}

// dropJournalMark removes the markFile, durably: nothing needs the journal any more.
func dropJournalMark(fsys vfs.FS, dir string) error {
	if err := fsys.Remove(filepath.Join(dir, markFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir) // also if an earlier process has removed it, but not durably
}
