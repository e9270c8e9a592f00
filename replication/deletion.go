package replication

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/vfs"
)

// deletions has the directories of deleted topics' partitions, renamed and waiting to be deleted:
// until then a user who deleted the wrong topic can recover the records. If the broker closes, or
// dies, the waiting directories stay; the next start deletes them. Kafka: LogManager.deleteLogs.
type deletions struct {
	fs     vfs.FS
	logger *slog.Logger
	alarm  alarm.Alarm // run, when the first waiting directory is due

	mu      sync.Mutex // guards the field below; never held during I/O
	waiting []deletion
}

type deletion struct {
	path string
	at   time.Time
}

// add has a directory deleted after delay, or at once.
func (d *deletions) add(path string, delay time.Duration) error {
	if delay <= 0 {
		return d.fs.RemoveAll(path)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	due := time.Now().Add(delay)
	d.waiting = append(d.waiting, deletion{path, due})
	d.alarm.By(due)
	return nil
}

// run deletes the directories that are due.
func (d *deletions) run() {
	present := time.Now()
	var due []string
	d.mu.Lock()
	d.waiting = slices.DeleteFunc(d.waiting, func(w deletion) bool {
		if w.at.After(present) {
			return false
		}
		due = append(due, w.path)
		return true
	})
	for _, w := range d.waiting {
		d.alarm.By(w.at)
	}
	d.mu.Unlock()
	for _, path := range due {
		if err := d.fs.RemoveAll(path); err != nil {
			d.logger.Warn("directory of a deleted partition stays until the next open", slog.String("directory", filepath.Base(path)), slog.Any("err", err))
		}
	}
}

// close ends the waiting and returns when no deletion is under way.
func (d *deletions) close() {
	d.alarm.Stop()
	d.alarm.Wait()
}
