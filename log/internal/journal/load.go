package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/stratalog/strata/vfs"
)

// A DamageError reports bytes that no crash can have left.
type DamageError struct {
	Pos    int64 // in the file, in bytes
	Reason string
}

// Error implements error.
func (e *DamageError) Error() string { return fmt.Sprintf("journal: byte %d: %s", e.Pos, e.Reason) }

// Content is the content of a journal.
type Content struct {
	Header  Header
	Entries []Entry // in the order in which they were appended
}

// Load reads the journal at path. It changes nothing. A last frame that a crash left incomplete is
// no error: it was not acknowledged.
//
// It returns an error matching fs.ErrNotExist if there is no journal; a *DamageError if synced
// bytes were changed, which is detectable if a whole frame follows them; ErrNewerFormat; or errors
// of the file system. It takes memory of the size of the file.
func Load(fsys vfs.FS, path string) (c Content, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return c, err
	}
	if c.Header, err = readHeader(f, size); err != nil {
		return c, err
	}
	var halves [2]loaded
	for i := range halves {
		at := headerBytes + int64(i)*c.Header.half
		p := make([]byte, c.Header.half)
		if _, err := f.ReadAt(p, at); err != nil {
			return c, err
		}
		if halves[i], err = parseHalf(p, c.Header.ID); err != nil {
			var damage *DamageError
			if errors.As(err, &damage) {
				damage.Pos += at
			}
			return c, err
		}
	}
	slices.SortFunc(halves[:], func(a, b loaded) int { return cmp.Compare(a.generation, b.generation) })
	c.Entries = append(halves[0].entries, halves[1].entries...)
	return c, nil
}

// ReadHeader reads the header of the journal at path. Errors are those of Load.
func ReadHeader(fsys vfs.FS, path string) (h Header, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return h, err
	}
	size, err := f.Size()
	if err == nil {
		h, err = readHeader(f, size)
	}
	return h, errors.Join(err, f.Close())
}

func readHeader(f vfs.File, size int64) (h Header, err error) {
	p := make([]byte, headerBytes)
	if _, err := f.ReadAt(p, 0); err != nil && err != io.EOF {
		return h, err
	}
	if h, err = decodeHeader(p, size); err != nil && !errors.Is(err, ErrNewerFormat) {
		err = &DamageError{Reason: err.Error()}
	}
	return h, err
}

// Exists reports whether there is a journal at path.
func Exists(fsys vfs.FS, path string) (bool, error) {
	_, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// loaded is the content of a half.
type loaded struct {
	generation uint64 // 0 means free
	entries    []Entry
}

// parseHalf returns the entries of a half.
func parseHalf(p []byte, id uint64) (h loaded, err error) {
	if p[0] == 0 {
		return h, nil
	}
	first := placeOf(p)
	if first.id != id {
		// Torn before the id, the last field that distinguishes this use of the half from an
		// earlier one.
		return h, nil
	}
	pos, next := int64(0), place{id: id, generation: first.generation}
	for pos < int64(len(p)) {
		at, entries, size, ok := parseFrame(p[pos:])
		if !ok || at != next {
			break
		}
		if h.entries, err = parseEntries(h.entries, entries); err != nil {
			return h, &DamageError{pos, err.Error()}
		}
		h.generation = at.generation
		next.number++
		pos += size
	}
	// The bytes here are torn, or left from an earlier use. If a frame of this use follows, they
	// were a whole frame once: the later frame was begun only after this one was durable.
	for behind := pos + alignment; behind < int64(len(p)); behind += alignment {
		if !bytes.HasPrefix(p[behind:], []byte(frameMagic)) {
			continue
		}
		if at, _, _, ok := parseFrame(p[behind:]); ok && at.id == id && at.generation == next.generation && at.number >= next.number {
			return h, &DamageError{pos, fmt.Sprintf("no frame, yet frame %d follows at %d", at.number, behind-pos)}
		}
	}
	return h, nil
}
