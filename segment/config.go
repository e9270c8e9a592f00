package segment

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Defaults of Config.
const (
	DefaultIndexIntervalBytes = 4096
	DefaultIndexBytes         = 10 << 20
)

// Config describes a segment. The zero Config is valid.
type Config struct {
	IndexIntervalBytes int        // bytes between two index entries. 0: 4096. Kafka: index.interval.bytes
	IndexBytes         int        // size of an index at which the segment counts as full. 0: 10 MiB. Kafka: segment.index.bytes
	FS                 vfs.FS     // nil: the operating system's
	Files              *FileCache // descriptors shared with other segments; nil: the segment keeps its own open
	ReadOnly           bool       // nothing on disk is changed
}

func (c Config) withDefaults() Config {
	if c.IndexIntervalBytes <= 0 {
		c.IndexIntervalBytes = DefaultIndexIntervalBytes
	}
	if c.IndexBytes <= 0 {
		c.IndexBytes = DefaultIndexBytes
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Files == nil {
		c.Files = NewFileCache(0)
	}
	return c
}

var (
	// ErrCorrupt is record.ErrCorrupt; every *CorruptError matches it.
	ErrCorrupt = record.ErrCorrupt
	// ErrSealed is returned by writing methods after Seal, and of a read-only segment.
	ErrSealed = errors.New("segment: read-only")
	// ErrClosed is returned after Close or Remove.
	ErrClosed = errors.New("segment: closed")
)

// CorruptError reports bytes that are not what was written. errors.Is(err, ErrCorrupt) is true for it.
type CorruptError struct {
	Path   string
	Pos    int64 // byte position in Path
	Offset int64 // record offset expected there
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment: %s is damaged at byte %d (offset %d): %s", e.Path, e.Pos, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
