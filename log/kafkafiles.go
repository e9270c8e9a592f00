package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// Kafka's files in a directory of logs. They are written when the directory is closed, so that a
// Kafka broker can continue from there. They are read for logs that have no state of ours, since
// Kafka wrote these.
const (
	cleanShutdownFile = ".kafka_cleanshutdown"
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"

	cleanShutdown = `{"version":0,"brokerEpoch":-1}`
)

// kafkaFiles is the content of those files. Offsets are by the name of the log's directory.
type kafkaFiles struct {
	clean      bool // every log was closed in order
	marked     bool // the marker is there
	closed     bool // closedFile is there
	taken      bool // a Kafka broker has used the directory since: our states are obsolete
	wasTaken   bool // taken was set when the directory was opened
	recoveries map[string]int64
	starts     map[string]int64
	found      string // the note in closedFile, if both are ours
	note       string // that is to be left there
}

// readKafkaFiles reads the existing files.
func readKafkaFiles(fsys vfs.FS, dir string) (k kafkaFiles, err error) {
	if k.recoveries, err = readOffsets(fsys, filepath.Join(dir, recoveryPointFile)); err != nil {
		return k, err
	}
	if k.starts, err = readOffsets(fsys, filepath.Join(dir, logStartFile)); err != nil {
		return k, err
	}
	return k, k.readMarks(fsys, dir)
}

// readMarks reads whether dir was closed in order, and whether Strata or Kafka used it last.
func (k *kafkaFiles) readMarks(fsys vfs.FS, dir string) error {
	marker, err := readIfThere(fsys, filepath.Join(dir, cleanShutdownFile))
	if err != nil {
		return err
	}
	closed, err := readIfThere(fsys, filepath.Join(dir, closedFile))
	if err == nil && closed != nil && marker == nil { // unless a writer has just closed the directory
		marker, err = readIfThere(fsys, filepath.Join(dir, cleanShutdownFile))
	}
	if err != nil {
		return err
	}
	k.marked, k.closed = marker != nil, closed != nil
	sum, note := "", strings.TrimPrefix(string(closed), closedText)
	if strings.HasPrefix(note, sumMark) {
		sum, note, _ = strings.Cut(note, "\n")
		sum += "\n"
	}
	ours := string(marker) == cleanShutdown
	if !ours && sum != "" && !isBrokersMarker(marker) { // the marker was removed, or is damaged
		now, whole, err := sumOfBrokersFiles(fsys, dir)
		if err != nil {
			return err
		}
		ours = now == sum || !whole // a broker that starts makes missing ones
	}
	k.clean = k.marked || ours
	k.taken = !ours && (k.marked || k.closed)
	if ours {
		k.found = note
	}
	return nil
}

// isBrokersMarker reports whether a broker of Kafka has written the marker. Older ones left it
// empty.
func isBrokersMarker(p []byte) bool {
	before, _, _ := strings.Cut(cleanShutdown, "-1")
	epoch, ok := strings.CutPrefix(string(p), before)
	_, err := strconv.ParseUint(strings.TrimSuffix(epoch, "}"), 10, 63)
	return ok && err == nil
}

// readIfThere reads a file; nil if there is none.
func readIfThere(fsys vfs.FS, name string) (p []byte, err error) {
	p, err = vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return append([]byte{}, p...), err
}

// lookBeside reads Kafka's files beside the log in path, for a read-only log that shares no
// Directory. known means that the log has a state of ours: then the files count only if a broker
// has used the directory since.
func (d *Directory) lookBeside(path string, known bool) error {
	real, err := d.fs.RealPath(path)
	if err != nil {
		real = path
	}
	d.path = filepath.Dir(real)
	if known {
		var k kafkaFiles
		if err := k.readMarks(d.fs, d.path); err != nil || !k.taken { // unreadable marks do not contradict the state
			return nil
		}
	}
	k, err := readKafkaFiles(d.fs, d.path)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kafka = k
	return err
}

// write writes the files, and the marker last. It leaves out logs whose directory is missing, and
// logs whose name is not a partition's.
func (k *kafkaFiles) write(fsys vfs.FS, dir string) error {
	for _, f := range []struct {
		name    string
		offsets map[string]int64
	}{{recoveryPointFile, k.recoveries}, {logStartFile, k.starts}} {
		var lines []string
		for name, offset := range f.offsets {
			topic, partition, ok := splitName(name)
			if _, err := fsys.Stat(filepath.Join(dir, name)); ok && err == nil {
				lines = append(lines, fmt.Sprintf("%s %s %d\n", topic, partition, offset))
			}
		}
		slices.Sort(lines)
		text := fmt.Sprintf("0\n%d\n%s", len(lines), strings.Join(lines, ""))
		if err := vfs.WriteFile(fsys, filepath.Join(dir, f.name), []byte(text)); err != nil {
			return err
		}
	}
	return vfs.WriteFile(fsys, filepath.Join(dir, cleanShutdownFile), []byte(cleanShutdown))
}

// splitName takes the name of a partition's directory apart, at the last dash.
func splitName(name string) (topic, partition string, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", "", false
	}
	_, err := strconv.ParseUint(name[i+1:], 10, 31)
	return name[:i], name[i+1:], err == nil
}

// readOffsets reads lines of "topic partition offset" behind a version and a count (Kafka:
// OffsetCheckpointFile). A missing or empty file has none.
func readOffsets(fsys vfs.FS, path string) (map[string]int64, error) {
	offsets := map[string]int64{}
	p, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(p) == 0 {
		return offsets, nil
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")
	bad := func(i int) error {
		return &CorruptError{Path: path, Offset: -1, Reason: fmt.Sprintf("line %d is not what belongs there; restore the file, or remove it to have the logs scanned", i+1)}
	}
	if lines[0] != "0" || len(lines) < 2 {
		return nil, bad(0)
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return nil, bad(1)
	}
	for i, line := range lines[2:] {
		f := strings.Split(line, " ")
		if len(f) != 3 {
			return nil, bad(i + 2)
		}
		offset, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, bad(i + 2)
		}
		offsets[f[0]+"-"+f[1]] = offset
	}
	return offsets, nil
}

// kafkaState returns the state of l from Kafka's files; known means that it was closed cleanly.
func (d *Directory) kafkaState(l *Log) (st manifest.State, known bool) {
	if !d.holds(l) {
		return st, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Base(l.path)
	st = manifest.State{Start: d.kafka.starts[name], RecoveryPoint: d.kafka.recoveries[name]}
	if _, ok := d.kafka.recoveries[name]; ok && d.kafka.clean {
		st.Clean, known = true, true
	}
	return st, known
}

// vouches reports whether Close may leave the marker of a clean shutdown. The marker covers all
// logs of the directory. So each log was closed cleanly now, or was not opened since the last
// marker. A start that is rejected has opened few of them.
func (d *Directory) vouches() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unclean || d.kafka.clean {
		return !d.unclean, nil
	}
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if _, _, ok := splitName(e.Name()); ok && !d.seen[e.Name()] && (e.IsDir() || e.Type()&fs.ModeSymlink != 0) {
			return false, nil
		}
	}
	return true, nil
}

// takenByKafka reports whether a Kafka broker has used the directory since we did. It is true only
// for read-only logs: OpenDirectory adopts the files that the broker left.
func (d *Directory) takenByKafka() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kafka.taken
}

// wasClosed records how a log of the directory was closed.
func (d *Directory) wasClosed(l *Log, err error) {
	name, start := filepath.Base(l.path), l.segments.start.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holds(l) {
		d.seen[name] = true
	}
	if err != nil || l.Err() != nil {
		d.unclean = true
		if !l.durability.settled() { // the log's entries in the journal must stay, and be synced when the log is opened again
			d.syncer.journal.retire(errors.Join(err, l.Err()))
		}
		return
	}
	if !d.holds(l) {
		return
	}
	if l.ending.Load().removed {
		d.kafka.forget(name)
		return
	}
	if l.token.writer.stateless { // shut has the token
		// It is empty, and its file may not be on the disk: a process that was killed may not have
		// synced its truncation. So the checkpoints have no entry for it. If the file has bytes the
		// next time, they are treated as left by a power failure.
		delete(d.kafka.recoveries, name)
		delete(d.kafka.starts, name)
		return
	}
	d.kafka.recoveries[name] = l.durability.offset.Load()
	if delete(d.kafka.starts, name); start > l.list()[0].Base() {
		d.kafka.starts[name] = start
	}
}
