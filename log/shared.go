package log

import (
	"errors"
	"path/filepath"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/log/internal/journal"
	"github.com/stratalog/strata/vfs"
)

const (
	// journalBusyLogs is how many logs must be busy at once to share a sync. Two syncs run at once
	// as fast as one.
	journalBusyLogs = 3
	// journalBusyTimes is how often they must have been before a journal is made, which takes a
	// while and 16 MiB.
	journalBusyTimes = 64
	// journalHalf is the default size of the journal's halves.
	journalHalf = 8 << 20
	// journalRound is the most bytes of one log's round that go through the journal: writing more a
	// second time takes longer than a sync.
	journalRound = 64 << 10
	// journalIdle is how long a journal is not used before it is emptied.
	journalIdle = 5 * time.Second
	// journalYields limits how often a round waits for the appenders that were just completed, so
	// that they are in the next round.
	journalYields = 4
)

// journaling is the use of a directory's journal by its logs: see docs/explanation/journal.md. Its
// zero value, never made ready, belongs to a directory without a journal.
type journaling struct {
	dir       *Directory
	half      int64 // bytes of a half; 0: no journal
	busyLogs  int   // journalBusyLogs, but in tests
	busyTimes int   // journalBusyTimes, likewise

	// state is noJournal until begin, which is called under the syncer's mu. Then upkeep and the
	// leader of shared rounds change it.
	state   atomic.Int32
	current *journal.Journal[holder] // stored before state is journalReady, and not changed
	// settling: a checkpoint is queued or runs. The journal allows one at a time.
	settling atomic.Bool
	idle     alarm.Alarm // rest
	rested   int64       // frames when idle looked last; the alarm's

	shared sharedRound // of the worker that leads shared rounds: there is one at a time
}

// The states of a journaling.
const (
	noJournal = iota
	makingJournal
	journalReady
	journalOut // out of use, until the directory is opened again
)

func (j *journaling) init(d *Directory, half int64) {
	j.dir, j.half, j.busyLogs, j.busyTimes = d, half, journalBusyLogs, journalBusyTimes
	j.idle.Do = j.rest
}

// ready reports whether rounds can share a sync.
func (j *journaling) ready() bool { return j.state.Load() == journalReady }

// wanted reports whether a journal could be made.
func (j *journaling) wanted() bool { return j.half > 0 && j.state.Load() == noJournal }

// begin claims the making of the journal: make must follow.
func (j *journaling) begin() bool { return j.state.CompareAndSwap(noJournal, makingJournal) }

// make makes the journal. On a worker.
func (j *journaling) make() {
	d := j.dir
	seen, err := witness(d.fs, d.path)
	if err == nil {
		j.current, err = journal.Create[holder](filepath.Join(d.path, journalFile), journal.Config{FS: d.fs, HalfSize: j.half, Witness: seen})
	}
	if err == nil {
		h := j.current.Header()
		mark := journalMark{id: h.ID, witness: h.Witness, boot: h.BootID}
		err = vfs.WriteFile(d.fs, filepath.Join(d.path, markFile), mark.text())
	}
	if err != nil {
		d.logger.Warn("no journal: each log syncs for itself", "path", d.path, "err", err)
		j.state.Store(journalOut)
		return
	}
	j.state.Store(journalReady)
}

// holder is a log that has entries in the journal.
type holder struct{ l *Log }

// Settle implements journal.Holder. It covers all written data, not only the durable part: a frame
// in the journal may not have been completed yet. A truncation meanwhile has synced the files
// before it cut them. If Settle fails, the journal is out of use, and so is the log.
func (h holder) Settle() error {
	if err := h.l.syncNow(); err != nil {
		return h.l.breakWith(err)
	}
	return nil
}

// shares reports whether rounds of the log may become durable in the directory's journal.
func (l *Log) shares() bool { return l.journaled && l.cfg.Load().Sync == SyncOnAck }

// canJournal reports whether the journal of d is one for the log in dir: that lies right below d,
// in the same file system.
func (d *Directory) canJournal(cfg *Config, dir string) bool {
	return !d.solo && d.syncer.journal.half > 0 && filepath.Dir(filepath.Clean(dir)) == filepath.Clean(d.path) &&
		reflect.TypeOf(d.fs).Comparable() && reflect.TypeOf(cfg.FS) == reflect.TypeOf(d.fs) && cfg.FS == d.fs
}

// A sharedRound is rounds of several logs that become durable with one sync. Its memory is used
// again.
type sharedRound struct {
	frame   journal.Frame
	rounds  []*round
	holders []holder
}

// lead leads one round of each log. The caller has their tokens, which lead passes on.
func (j *journaling) lead(ws []*writer) {
	s := &j.shared
	s.frame.Reset()
	s.rounds, s.holders = s.rounds[:0], s.holders[:0]
	for _, w := range ws {
		j.write(w)
	}
	err := j.append()
	for _, r := range s.rounds {
		if err != nil { // the log's own sync decides, whether the journal has the round or not
			j.dir.syncer.add(job{finish: r})
			continue
		}
		r.writer.completeJournaled(r)
	}
	if err == nil {
		j.yield()
		for _, r := range s.rounds {
			w := r.writer
			r.put()
			w.release()
		}
	}
	clear(s.rounds)
	clear(s.holders)
	if s.frame.Cap() > maxPooledBytes {
		s.frame = journal.Frame{}
	}
}

// write writes a round of w's log and adds it to the shared one. A round that is too large for that
// is synced by another worker.
func (j *journaling) write(w *writer) {
	r := rounds.Get().(*round)
	r.writer, r.frame = w, &j.shared.frame
	w.takeQueued(r)
	w.roundSize = len(r.all)
	w.write(r)
	switch {
	case !w.completeWritten(r):
		r.put()
		w.release()
	case r.frame == nil || r.tag != w.journalTag:
		// It is too large, or void from the start: a roll in the middle of it drew another tag.
		j.dir.syncer.add(job{finish: r})
	default:
		j.shared.rounds = append(j.shared.rounds, r)
		j.shared.holders = append(j.shared.holders, holder{w.log})
	}
}

// append makes the shared round durable in the journal, and starts the journal's upkeep if needed.
func (j *journaling) append() error {
	begin := time.Now()
	err := j.current.Append(&j.shared.frame, j.shared.holders)
	if !errors.Is(err, journal.ErrFull) { // then nothing was written
		j.dir.observeSync(begin)
	}
	if err != nil && !errors.Is(err, journal.ErrFull) {
		j.retire(err)
		return err
	}
	j.idle.After(journalIdle)
	if j.current.Due() && j.settling.CompareAndSwap(false, true) {
		j.dir.syncer.add(job{upkeep: j.checkpoint})
	}
	return err
}

// yield lets the appenders run that were just completed, so that their next appends are in the next
// shared round.
func (j *journaling) yield() {
	for range journalYields {
		runtime.Gosched()
	}
}

// checkpoint gives full halves of the journal free. On a worker.
func (j *journaling) checkpoint() {
	if err := j.current.Checkpoint(); err != nil {
		j.retire(err)
	}
	j.settling.Store(false)
}

// rest empties a journal that was not used for a while.
func (j *journaling) rest() {
	switch frames := j.current.Frames(); {
	case !j.ready():
	case frames != j.rested || !j.settling.CompareAndSwap(false, true):
		j.rested = frames
		j.idle.After(journalIdle)
	default:
		if err := j.current.Drain(); err != nil {
			j.retire(err)
		}
		j.settling.Store(false)
	}
}

// retire puts the journal out of use until the directory is opened again. The file keeps its
// frames. A frame that is being appended may still become durable.
func (j *journaling) retire(err error) {
	if j.state.CompareAndSwap(journalReady, journalOut) {
		j.current.Retire(err)
		j.dir.logger.Error("the journal is out of use: each log syncs for itself until the directory is opened again", "path", j.dir.path, "err", err)
	}
}

// close ends the use of the journal, when the syncer has been stopped. orderly means that all logs
// were closed cleanly, so that no entry of the journal is needed: then it is removed. Otherwise it
// is left for recovery.
func (j *journaling) close(orderly bool) error {
	switch {
	case j.current == nil:
		return nil
	case orderly:
		if err := dropJournalMark(j.dir.fs, j.dir.path); err != nil {
			return errors.Join(err, j.current.Close())
		}
		return j.current.Remove()
	}
	return j.current.Close()
}

// completeJournaled is complete of a round that is in the journal.
func (w *writer) completeJournaled(r *round) {
	l := w.log
	if l.durability.advanceJournaled(r.end) {
		l.tellDurable(r.end)
	}
	for _, a := range r.written {
		a.complete()
	}
}

// syncAndComplete makes the round durable in the log's own files, and gives the token up.
func (r *round) syncAndComplete() {
	w := r.writer
	w.complete(r, w.sync(r))
	r.put()
	runtime.Gosched() // as in leadOnWorker
	w.release()
}

// addToFrame adds the data written to the active segment at pos to the frame of a shared round, or
// removes the round from it.
func (w *writer) addToFrame(r *round, base, pos int64) {
	bytes := 0
	for _, p := range r.pieces {
		bytes += len(p)
	}
	if r.shared += bytes; r.shared > journalRound {
		r.frame = nil // its part in the frame is correct, and not needed
		return
	}
	if r.shared == bytes {
		r.tag = w.journalTag
	}
	r.frame.Add(journal.Entry{Log: w.log.name, Tag: w.journalTag, Base: base, Pos: pos}, r.pieces...)
}
