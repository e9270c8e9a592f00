package vfs

import (
	"path/filepath"
	"reflect"
	"strings"
	"sync"
)

// SetNote stores a note about a file of fsys in memory, until RemoveNote or the end of the process.
// It is for data that could not be written to the file because its disk failed. path is the file's
// real path; note is borrowed. File systems that show the same files share their notes: sessions,
// read-only views and FaultFS use the notes of the file system below. A Session that has ended
// stores no notes. A clone of a MemFS begins without notes, as another process does.
func SetNote(fsys FS, path string, note []byte) {
	if n, of := notebookOf(fsys); n != nil {
		n.put(noteKey{of, path}, note)
	}
}

// Note returns the last note of SetNote about path, or nil if there is none. It must not be
// changed.
func Note(fsys FS, path string) []byte {
	n, of := notebookOf(fsys)
	if n == nil {
		return nil
	}
	return n.get(noteKey{of, path})
}

// RemoveNote removes the note about path.
func RemoveNote(fsys FS, path string) {
	if n, of := notebookOf(fsys); n != nil {
		n.remove(func(k noteKey) bool { return k == noteKey{of, path} })
	}
}

// A notebook has the notes of this process about the files of one file system.
type notebook struct {
	mu sync.Mutex // guards the field below

	notes map[noteKey][]byte
}

type noteKey struct {
	of   any    // the file system, if it is none of this package; else nil
	path string // real
}

func (n *notebook) put(k noteKey, note []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notes == nil {
		n.notes = make(map[noteKey][]byte)
	}
	n.notes[k] = append([]byte{}, note...)
}

func (n *notebook) get(k noteKey) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.notes[k]
}

func (n *notebook) remove(which func(noteKey) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k := range n.notes {
		if which(k) {
			delete(n.notes, k)
		}
	}
}

// removeBelow removes the notes about the files below dir.
func (n *notebook) removeBelow(dir string) {
	prefix := strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator)
	n.remove(func(k noteKey) bool { return strings.HasPrefix(k.path, prefix) })
}

// noteTaker is implemented by the file systems of this package.
type noteTaker interface {
	notebook() (n *notebook, of any) // n is nil if nothing is remembered
}

var (
	osNotes    notebook // of the operating system's files
	otherNotes notebook // of file systems from elsewhere
)

func notebookOf(fsys FS) (n *notebook, of any) {
	switch t, ok := fsys.(noteTaker); {
	case ok:
		return t.notebook()
	case reflect.ValueOf(fsys).Comparable():
		return &otherNotes, fsys
	}
	return nil, nil
}

func (osFS) notebook() (*notebook, any)         { return &osNotes, nil }
func (t *memTree) notebook() (*notebook, any)   { return &t.notes, nil }
func (f *FaultFS) notebook() (*notebook, any)   { return notebookOf(f.fs) }
func (r readOnlyFS) notebook() (*notebook, any) { return notebookOf(r.fs) }

// notebook returns nil if the session has ended: its calls fail, although no disk has failed.
func (s *Session) notebook() (*notebook, any) {
	if s.ended.Load() {
		return nil, nil
	}
	return notebookOf(s.fs)
}
