package segment

import (
	"github.com/stratalog/strata/vfs"
)

// Defaults of Config.
const (
	DefaultIndexIntervalBytes = 4096
	DefaultIndexBytes         = 10 << 20
)

// Config describes a segment. The zero Config is valid.
type Config struct {
	// IndexIntervalBytes lie between two index entries. 0: 4096. Kafka: index.interval.bytes.
	IndexIntervalBytes int
	// IndexBytes is the size of an index at which the segment counts as full. 0: 10 MiB. Kafka:
	// segment.index.bytes.
	IndexBytes int
	// FS is the file system; nil: the operating system's.
	FS vfs.FS
	// Files are descriptors shared with other segments; nil: the segment keeps its own open.
	Files *FileCache

	// ReadOnly is for segments that somebody else may be writing to, removing or replacing. Nothing
	// on disk is changed. The .log file is held open from Open to Close and the transaction index
	// is read by Open, so that the segment stays what it was then, whatever becomes of the names.
	// Only a truncation of the file shows: what is read is checked every time, and a *CorruptError
	// then.
	ReadOnly bool

	// EpochAt, if set, returns the leader epoch that a batch with this base offset must carry, -1
	// if that is not known. It is asked when a batch is verified for the first time after Open: the
	// CRC does not cover the epoch. Recover cuts batches of an older one above the recovery point.
	// It must not block, nor call the segment.
	EpochAt func(baseOffset int64) int32
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
