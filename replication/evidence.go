package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/chanlock"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// place names a replica on a broker.
type place = image.Place

// A note is the record of one replica.
type note struct {
	highWatermark int64 // 0 for a partition with one replica, whose log has it
	start         int64 // of the log; -1: unknown
	end           int64 // end of the bytes on stable storage; 0: unknown
	epoch         int32 // leader epoch in which the replica led and had end; -1: unknown
	stated        bool  // the log's strata.state was on stable storage
	exact         bool  // start and end are as the log was closed, unless it was opened since
	kept          bool  // directory and log are on stable storage
}

// evidence is the content of the file.
type evidence struct {
	// Of the last incarnation, not changed any more:
	found    map[place]note
	metadata moment
	closed   int64    // broker epoch; -1: unknown
	sameRun  bool     // the last incarnation ended in order, or in the present run of the machine
	earlier  bool     // it is from the file of an earlier version
	list     copyList // of a backup that was not opened since; else empty
	old      bool     // the directory is an older copy of the broker's; set by recall

	alarm  alarm.Alarm // saveEvidenceOften
	quiet  atomic.Bool // the alarm is not armed, and noteProgress arms it
	active bool        // the incarnation serves; only then it writes. Of open, start and close

	// file guards the fields below and the file. Its holder may wait for the disk.
	file         chanlock.Lock
	size         int64      // of the file
	written      moment     // newest metadata in the file when it was last replaced
	incarnations []topic.ID // in the file, the newest last; nil if it was damaged

	mu sync.Mutex // guards the field below; never held during I/O
	// saved is the content of the file, without replicas that were given up since. Replicas are added
	// by the holder of file.
	saved   map[place]note
	unsaved bool // saved has more than the file
}

// readEvidence reads the file of the last incarnation. Damaged lines are as good as missing. The
// error is a *DirectoryError, or the disk's.
func (n *node) readEvidence() error {
	e := &n.evidence
	e.found, e.closed, e.metadata = map[place]note{}, -1, moment{-1, 0}
	e.saved = map[place]note{}
	p, err := vfs.ReadFile(n.fs, filepath.Join(n.root, evidenceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return n.readEarlierEvidence()
	}
	if err := notRegular(n.root, err); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", n.root, err)
	}
	damaged, err := e.decode(p)
	if err != nil {
		return directoryError(n.root, ErrNewerFormat, err)
	}
	if damaged > 0 {
		e.incarnations = nil
		n.logger.Warn("file of the broker's partitions is damaged", slog.Int("broker", int(n.id)), slog.String("file", evidenceFile), slog.Int("lines", damaged))
	}
	e.saved, e.size, e.written = maps.Clone(e.found), int64(len(p)), e.metadata
	return nil
}

func (n *node) readEarlierEvidence() error {
	e := &n.evidence
	p, err := vfs.ReadFile(n.fs, filepath.Join(n.root, earlierEvidenceFile))
	if err == nil {
		err = e.decodeEarlier(p)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, ErrDamaged):
		clear(e.found)
		n.logger.Warn("high watermarks of the last incarnation are not known", slog.Int("broker", int(n.id)), slog.Any("err", err))
		return nil
	case err != nil:
		return fmt.Errorf("open %s: %w", n.root, err)
	}
	e.saved, e.earlier = maps.Clone(e.found), true
	return nil
}

// foundNote returns the last incarnation's note of a replica. After a power cut it does
// not count unless it was on stable storage.
func (n *node) foundNote(at place) (t note, ok bool) {
	t, ok = n.evidence.found[at]
	return t, ok && (t.kept || !n.powerCut)
}

// knownOf returns the bounds that a log is compared with when it is opened; nil: there are none.
func (n *node) knownOf(r *replica) *log.Known {
	t, ok := n.foundNote(r.place())
	if !ok {
		return nil
	}
	return &log.Known{Start: t.start, End: t.end, Exact: t.exact, Stated: t.stated, SameRun: n.evidence.sameRun}
}

// recallEnds drops the ends that do not count. The others count in this incarnation as well: a log
// that is shorter is not opened, and nothing cuts it. With closed, no incarnation has opened a log
// since the file was written.
func (n *node) recallEnds(closed bool) {
	e := &n.evidence
	for at, t := range e.found {
		since, last := n.metadata.lead(at)
		t.exact = closed && (t.exact || n.orderly) // earlier versions did not note it for each log
		switch counts := since >= 0 && t.epoch >= since; {
		case t.exact:
			t.epoch = last
		case !counts:
			t.end, t.epoch = 0, -1
		}
		e.found[at], e.saved[at] = t, t
	}
}

// lead returns the first and the last leader epoch in which no other broker than this one has led a
// partition since; -1 if another one has. In between the partition may have been without a leader.
// Neither cuts the log: only a replica that follows another one cuts its log at a new epoch.
func (m nodeMetadata) lead(at place) (since, last int32) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.ByID[at.Topic]
	if t == nil || at.Partition < 0 || int(at.Partition) >= len(t.Partitions) {
		return -1, -1
	}
	p := &t.Partitions[at.Partition]
	switch led := p.Led(); led.By {
	case m.broker:
		return led.Since, p.LeaderEpoch
	case 0: // only the epoch before the present one can be known
		return p.LeaderEpoch - 1, p.LeaderEpoch - 1
	}
	return -1, -1
}

// recallMissing returns the replicas of several whose directories are missing.
func (n *node) recallMissing() (missing []place) {
	for _, at := range slices.SortedFunc(maps.Keys(n.evidence.found), place.Compare) {
		tp, several, ok := n.metadata.hosted(at)
		if _, counts := n.foundNote(at); !ok || !several || !counts {
			continue
		}
		if _, err := n.fs.Stat(filepath.Join(n.root, partitionDir(tp))); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, at)
		}
	}
	return missing
}

// noteMissing records the replicas that have been here and whose directories were not found. Notes
// of replicas that do not count, for instance because they were moved away, are dropped.
func (n *node) noteMissing(found []record.TopicPartition) {
	there := make(map[record.TopicPartition]bool, len(found))
	for _, tp := range found {
		there[tp] = true
	}
	for _, at := range slices.SortedFunc(maps.Keys(n.evidence.found), place.Compare) {
		tp, _, ok := n.metadata.hosted(at)
		switch _, counts := n.foundNote(at); {
		case ok && there[tp]:
		case !ok || !counts:
			n.forgetBegun(at)
		case n.replica(tp) == nil: // else it was found to lead nowhere
			n.cannotServe(n.place(tp, at.Topic), n.errMissing(at, tp))
		}
	}
}

// errMissing is the error of a partition whose directory is missing.
func (n *node) errMissing(at place, tp record.TopicPartition) error {
	return &DirectoryError{
		Dir: filepath.Join(n.root, partitionDir(tp)), Reason: ErrRecordsMissing, Err: errors.New("the directory is missing"), Advice: n.missingAdvice(at),
	}
}

// missingAdvice is the remedy for a partition whose records are missing.
func (n *node) missingAdvice(at place) string {
	tp, several, _ := n.metadata.hosted(at)
	return "put it back or restore it from a backup; " + n.givesUp(tp, several)
}

// givesUp names the acts that give up the records of a partition, so that it is served again.
// Internal topics are not deleted. A broker without its file of partitions treats a missing
// directory as a partition that was never written.
func (n *node) givesUp(tp record.TopicPartition, several bool) string {
	switch internal := topic.IsInternal(tp.Topic); {
	case several && internal:
		return "an unclean election gives the records up"
	case several:
		return "an unclean election or deleting the topic gives the records up"
	case internal:
		return fmt.Sprintf("removing %s and %s while the broker is stopped gives the records up", partitionDir(tp), filepath.Join(n.root, evidenceFile))
	}
	return "deleting the topic gives the records up"
}

// withAdvice adds the remedy to the error of a replica whose log cannot be opened.
func (n *node) withAdvice(r *replica, err error, several bool) error {
	switch damaged := errors.Is(err, log.ErrCorrupt); {
	case errors.As(err, new(*DirectoryError)) || !damaged && !errors.Is(err, log.ErrMissingSegment):
		return err
	case several && damaged:
		return fmt.Errorf("%w (if another replica leads, removing the directory while the broker is stopped has it copied again)", err)
	}
	return fmt.Errorf("%w (%s)", err, n.missingAdvice(r.place()))
}

// named is an error with the broker's name.
func (n *node) named(err error) error { return fmt.Errorf("broker %d: %w", n.id, err) }

// hosted returns the name of a partition that the broker has a replica of, and whether it has
// others.
func (m nodeMetadata) hosted(at place) (tp record.TopicPartition, several, ok bool) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.ByID[at.Topic]
	if t == nil || at.Partition < 0 || int(at.Partition) >= len(t.Partitions) {
		return tp, false, false
	}
	p := &t.Partitions[at.Partition]
	return record.TopicPartition{Topic: t.Name, Partition: at.Partition}, isSeveral(p), slices.Contains(p.Replicas, m.broker)
}

// noteBegun appends a replica whose log has been made, and that nothing was appended to. Nothing is
// synced. On error the log must not be used.
func (n *node) noteBegun(r *replica) error {
	at, t := r.place(), note{start: -1, epoch: -1}
	m := n.metadata.moment()
	e := &n.evidence
	e.file.Lock()
	defer e.file.Unlock()
	if n.hasBegun(r) {
		return nil
	}
	if err := n.appendEvidence(m, t.line(at)); err != nil {
		return fmt.Errorf("note %s in %s: %w", partitionDir(r.tp), evidenceFile, err)
	}
	e.mu.Lock()
	e.saved[at] = t
	e.mu.Unlock()
	n.watchEvidence()
	return nil
}

// appendEvidence appends lines to the file, behind the state of the metadata that they belong to.
// Nothing is synced. The caller holds file.
func (n *node) appendEvidence(m moment, lines string) error {
	e := &n.evidence
	text := "\n" + m.line() + lines // a line that a crash has torn ends here
	flags := os.O_WRONLY
	if e.size == 0 {
		text, flags = sealed("#strata partitions %d", evidenceFormat)+text, os.O_WRONLY|os.O_CREATE
	}
	f, err := n.fs.OpenFile(filepath.Join(n.root, evidenceFile), flags, 0o644)
	if err == nil {
		_, err = f.WriteAt([]byte(text), e.size)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		e.size += int64(len(text))
	}
	return err
}

// beginEvidence is called when the broker begins to serve the partitions that it has loaded. A file
// that lacks some of them, because an earlier version has written them or the file was lost, is
// replaced at once. Any other names the present metadata from now on, and is replaced later: no
// open waits for its disk.
func (n *node) beginEvidence(all []*loaded) {
	e := &n.evidence
	e.file.Lock()
	defer e.file.Unlock()
	e.active = true
	e.mu.Lock()
	for _, l := range all {
		if t, ok := e.saved[l.r.place()]; ok {
			e.saved[l.r.place()] = t.closed(false)
		}
	}
	e.mu.Unlock()
	if slices.ContainsFunc(all, func(l *loaded) bool { return !l.gone && !n.hasBegun(l.r) }) {
		e.alarm.By(time.Now())
		return
	}
	if e.size > 0 {
		if err := n.appendEvidence(n.metadata.moment(), ""); err != nil {
			n.logger.Warn("newest metadata is not noted", slog.Int("broker", int(n.id)), slog.Any("err", err))
		}
	}
	n.watchEvidence()
}

// hasBegun reports whether the replica's log was made in this incarnation or the last one.
func (n *node) hasBegun(r *replica) bool {
	n.evidence.mu.Lock()
	defer n.evidence.mu.Unlock()
	_, begun := n.evidence.saved[r.place()]
	return begun
}

// keepBegun is called when a replica was found to be lost: from then on the next power cut is no
// reason for that.
func (n *node) keepBegun(at place) {
	n.evidence.mu.Lock()
	defer n.evidence.mu.Unlock()
	if t, ok := n.evidence.saved[at]; ok && !t.kept {
		t.kept = true
		n.evidence.saved[at] = t
		n.evidence.unsaved = true
	}
}

// forgetBegun is called when the replica's directory is put aside on purpose.
func (n *node) forgetBegun(at place) {
	n.evidence.mu.Lock()
	defer n.evidence.mu.Unlock()
	if _, ok := n.evidence.saved[at]; ok {
		delete(n.evidence.saved, at)
		n.evidence.unsaved = true
	}
}

// watchEvidence has the file replaced by and by.
func (n *node) watchEvidence() {
	n.evidence.quiet.Store(false) // before the alarm is armed: it may fire at once
	n.evidence.alarm.After(n.metadata.c.cfg.HighWatermarkInterval)
}

// noteProgress is called when bytes of a log or a change of the metadata are on stable storage. It
// does not block, and costs little.
func (n *node) noteProgress() {
	if n.evidence.quiet.Load() {
		n.watchEvidence()
	}
}

// saveEvidenceOften is called a few seconds after noteProgress, and every few seconds while there
// is a replica that is one of several.
func (n *node) saveEvidenceOften() {
	n.evidence.quiet.Store(true) // before logs are looked at
	if n.ended() == nil && n.saveEvidence(false) {
		n.watchEvidence()
	}
}

// saveEvidence replaces the file if it is not true any more, and reports whether there may be more
// to save without a call of noteProgress.
func (n *node) saveEvidence(closing bool) (again bool) {
	e := &n.evidence
	e.file.Lock()
	defer e.file.Unlock()
	e.mu.Lock()
	before, unsaved := maps.Clone(e.saved), e.unsaved
	e.mu.Unlock()
	m := n.metadata.moment()
	now := make(map[place]note, len(before))
	for at, t := range before { // offline replicas as well
		if closing && !t.exact {
			t.start = -1 // unless it is open: it may have moved before the last incarnation ended
		}
		if _, _, ok := n.metadata.hosted(at); ok {
			now[at] = t
		}
	}
	for _, r := range n.all() {
		at, p := r.place(), r.partition()
		_, others, ok := n.metadata.hosted(at)
		had, known := now[at]
		if ok && known && p == nil && had.epoch >= 0 { // it is offline: nothing cuts its log
			_, last := n.metadata.lead(at)
			had.epoch = max(had.epoch, last)
			now[at] = had
		}
		if !ok || p == nil {
			continue
		}
		t, pending := noteOf(p, had, others, closing || !known)
		now[at] = t.closed(closing && r.inOrder.Load())
		again = again || others || pending
		if closing && !now[at].kept { // a power cut may take all of it
			delete(now, at)
		}
	}
	if maps.Equal(now, before) && !closing && !unsaved && m == e.written && e.size > 0 || len(now) == 0 && e.size == 0 {
		return again
	}
	closed := int64(-1)
	if closing {
		closed = n.closedEpoch()
	}
	p := encodeEvidence(m, closed, n.incarnationsNow(), now)
	err := vfs.WriteFile(n.fs, filepath.Join(n.root, evidenceFile), p)
	if err == nil && e.earlier {
		if err = n.fs.Remove(filepath.Join(n.root, earlierEvidenceFile)); err == nil {
			e.earlier = false
		}
	}
	if err != nil {
		if n.ended() == nil {
			n.logger.Warn("the file of the broker's partitions is not saved", slog.Int("broker", int(n.id)), slog.Any("err", err))
		}
		return true
	}
	e.size, e.written = int64(len(p)), m
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(now, func(at place, _ note) bool {
		_, was := before[at]
		_, is := e.saved[at]
		return was && !is // it was given up meanwhile
	})
	e.saved, e.unsaved = now, false
	return again
}

// noteOf returns the note of a partition that is open, or was closed. had is the note before. With
// all, start and end are read again, as for each leader. pending reports whether bytes of
// the log are not on stable storage yet.
func noteOf(p *partition.Partition, had note, several, all bool) (t note, pending bool) {
	epoch := p.LeaderEpoch()
	st := p.Stats()
	if epoch != p.LeaderEpoch() { // the log may have been cut between the two
		epoch = -1
	}
	t = had
	t.kept = had.kept || st.DurableOffset > st.LogStartOffset
	t.stated = had.stated || st.Stated
	if all || t.kept && (!had.kept || epoch >= 0) {
		t.start, t.end, t.epoch = st.LogStartOffset, st.DurableOffset, epoch
	}
	if t.highWatermark = 0; several {
		t.highWatermark = st.HighWatermark
	}
	return t, st.DurableOffset < st.LogEndOffset
}

// closed returns the note of a log that was closed in order, or not.
func (t note) closed(inOrder bool) note {
	t.exact = inOrder
	return t
}

// closedEpoch is the epoch of the incarnation that has closed the logs: see leave.
func (n *node) closedEpoch() int64 {
	c := n.metadata.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.image != nil {
		if m := c.image.Members[n.id]; topic.ID(m.Incarnation) == n.incarnation {
			return m.Epoch
		}
	}
	return n.evidence.closed
}

// leaveEvidence saves it when all partitions are closed, for the next incarnation, and high
// watermarks for Kafka.
func (n *node) leaveEvidence() {
	if !n.evidence.active {
		return
	}
	n.saveEvidence(true)
	n.evidence.mu.Lock()
	defer n.evidence.mu.Unlock()
	var lines []string
	for at, t := range n.evidence.saved {
		if tp, several, ok := n.metadata.hosted(at); ok && several {
			lines = append(lines, fmt.Sprintf("%s %d %d\n", tp.Topic, tp.Partition, t.highWatermark))
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	text := fmt.Sprintf("0\n%d\n%s", len(lines), strings.Join(lines, ""))
	if err := vfs.WriteFile(n.fs, filepath.Join(n.root, kafkaHighWatermarkFile), []byte(text)); err != nil && !errors.Is(err, vfs.ErrEnded) {
		n.logger.Warn("high watermarks are not saved for Kafka", slog.Int("broker", int(n.id)), slog.Any("err", err))
	}
}
