package replication

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/vfs"
)

// deletions are the directories of deleted topics' partitions, renamed and waiting to be deleted: until then somebody who deleted the wrong topic
// finds the records there. What waits when the broker closes, or dies, stays; the next start deletes it. Kafka: LogManager.deleteLogs.
type deletions struct {
	fs     vfs.FS
	logger *slog.Logger
	wg     sync.WaitGroup // the timer

	mu      sync.Mutex // guards the fields below; never held during I/O
	waiting []deletion
	timer   *time.Timer // nil: not armed
	closed  bool
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
	d.waiting = append(d.waiting, deletion{path, time.Now().Add(delay)})
	d.armLocked()
	return nil
}

// armLocked makes the timer fire when the first of those that wait is due.
func (d *deletions) armLocked() {
	if d.timer != nil && d.timer.Stop() {
		d.wg.Done()
	}
	d.timer = nil
	if len(d.waiting) == 0 || d.closed {
		return
	}
	first := slices.MinFunc(d.waiting, func(a, b deletion) int { return a.at.Compare(b.at) })
	d.wg.Add(1)
	d.timer = time.AfterFunc(max(time.Until(first.at), 0), func() {
		defer d.wg.Done()
		d.run()
	})
}

// run deletes what is due.
func (d *deletions) run() {
	present := time.Now()
	var due []string
	d.mu.Lock()
	d.waiting = slices.DeleteFunc(d.waiting, func(w deletion) bool {
		if d.closed || w.at.After(present) {
			return false
		}
		due = append(due, w.path)
		return true
	})
	d.armLocked() // also if add has armed another timer meanwhile
	d.mu.Unlock()
	for _, path := range due {
		if err := d.fs.RemoveAll(path); err != nil {
			d.logger.Warn("directory of a deleted partition stays until the next open", slog.String("directory", filepath.Base(path)), slog.Any("err", err))
		}
	}
}

// close ends the waiting and returns when no deletion is under way.
func (d *deletions) close() {
	d.mu.Lock()
	d.closed = true
	d.armLocked()
	d.mu.Unlock()
	d.wg.Wait()
}
