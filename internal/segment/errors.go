package segment

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/record"
)

var (
	// ErrCorrupt is record.ErrCorrupt; every *CorruptError matches it.
	ErrCorrupt = record.ErrCorrupt
	// ErrSealed is returned by writing methods after Seal, and on a read-only segment.
	ErrSealed = errors.New("segment: read-only")
	// ErrClosed is returned after Close or Remove.
	ErrClosed = errors.New("segment: closed")
	// ErrInvalidBatches is returned by Append for batches that cannot follow the present ones:
	// nothing was written.
	ErrInvalidBatches = errors.New("segment: batches do not fit")
)

// A CorruptError reports bytes that differ from the written ones. errors.Is(err, ErrCorrupt) is
// true for it.
type CorruptError struct {
	Path   string
	Pos    int64 // byte position in Path
	Offset int64 // record offset expected at Pos
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment: %s is damaged at byte %d (offset %d): %s", e.Path, e.Pos, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func (s *Segment) corrupt(pos, offset int64, reason string) error {
	return &CorruptError{s.Path(), pos, offset, reason}
}
