package segment

import "github.com/stratalog/strata/record"

// A BatchInfo describes a batch to append.
type BatchInfo struct {
	Size         int   // bytes
	BaseOffset   int64 // first offset
	LastOffset   int64 // inclusive
	MaxTimestamp int64 // ms
}

// InfoOf returns the BatchInfo of a batch.
func InfoOf(b *record.Batch) BatchInfo {
	return BatchInfo{Size: b.Size(), BaseOffset: b.BaseOffset, LastOffset: b.LastOffset(), MaxTimestamp: b.MaxTimestamp}
}
