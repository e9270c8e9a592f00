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
	// IndexIntervalBytes is the number of bytes between two index entries. 0 means 4096. Kafka:
	// index.interval.bytes.
	IndexIntervalBytes int
	// IndexBytes is the size of an index at which the segment counts as full. 0 means 10 MiB.
	// Kafka: segment.index.bytes.
	IndexBytes int
	// FS is the file system; nil means the operating system's.
	FS vfs.FS
	// Files has descriptors shared with other segments; nil means that the segment keeps its own
	// open.
	Files *FileCache

	// ReadOnly is for segments that another process may be writing to, removing or replacing.
	// Nothing on disk is changed. Open opens the .log file, which stays open until Close, and reads
	// the transaction index. So the segment does not change, even if its files are renamed or
	// deleted. Only a truncation of the file is visible: every read is verified, and returns a
	// *CorruptError then.
	ReadOnly bool

	// EpochAt returns the leader epoch of the batch with this base offset, or -1 if it is unknown.
	// It may be nil. It is called when a batch is verified for the first time after Open, since the
	// CRC does not cover the epoch. Recover truncates batches with an older epoch above the
	// recovery point. EpochAt must not block, nor call the segment.
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
