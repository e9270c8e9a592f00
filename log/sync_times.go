package log

import (
	"time"

	"github.com/stratalog/strata/internal/latency"
)

// Latencies are durations, counted in buckets of fixed bounds: two for each power of two from
// 500 ns to 67 s. Counts has the number in each bucket, Sum their sum. The methods Count, Mean and
// Quantile summarize them, Merge adds those of another histogram, and Since subtracts an earlier
// state of the same one.
type Latencies = latency.Snapshot

// SyncTimes returns the durations of the syncs that made appended records durable since the
// Directory was opened: of segments, and of the journal, where one sync is for many logs. A sync
// that failed counts too.
func (d *Directory) SyncTimes() Latencies { return d.syncTimes.Snapshot() }

// SyncTimes returns the SyncTimes of the log's Directory, which the log may share with others: see
// Config.Dir.
func (l *Log) SyncTimes() Latencies { return l.dir.SyncTimes() }

// observeSync counts a sync that began at begin and has ended.
func (d *Directory) observeSync(begin time.Time) { d.syncTimes.Observe(time.Since(begin)) }
