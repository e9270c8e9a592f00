package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/vfs"
)

// A Kafka broker may have used a directory since we did. It does not use strata.state: it may have
// compacted, rolled and removed segments that contradict a state. Then all states of the directory
// are void, until each log gets a new one from the files that the broker left (package recovery:
// adopt).
//
// A broker removes the marker of a clean shutdown when it starts, and writes its own when it stops
// in order. Our marker shows that no broker has used the directory since. The lack of a marker
// shows nothing by itself, since we remove it too. Therefore closedFile exists only while our
// marker does. The order is as follows, each step on stable storage before the next:
//
//	Close          writes the marker, then closedFile
//	OpenDirectory  removes closedFile, then the marker
//
// closedFile without our marker means that a broker has used the directory, or that the marker was
// removed or damaged. closedFile has a sum of brokersFiles, and only a broker changes those: in
// another state they show that it has. (A broker that takes over a directory which we did not close
// cleanly, and is killed, cannot be detected.)
const closedFile = "strata.closed"

// brokersFiles are the checkpoints of a directory that a broker writes. A broker that starts makes
// missing ones after it has loaded the logs, and before it changes a log. We never leave
// the last one, so each broker that has changed a log has made it.
var brokersFiles = []string{recoveryPointFile, logStartFile, "replication-offset-checkpoint", cleanerFile}

// sumMark begins the line of closedFile with the sum. Earlier versions wrote none.
const sumMark = "checkpoints "

// sumOfBrokersFiles returns the line of closedFile for the present state of brokersFiles. whole is
// false if one of the files that Close writes is missing.
func sumOfBrokersFiles(fsys vfs.FS, dir string) (line string, whole bool, err error) {
	h := xxhash.New()
	whole = true
	for _, name := range brokersFiles {
		p, err := readIfThere(fsys, filepath.Join(dir, name))
		if errors.Is(err, vfs.ErrNotRegular) { // for example a directory: neither a broker's nor ours
			p, err = nil, nil
		}
		if err != nil {
			return "", false, err
		}
		if p == nil && (name == recoveryPointFile || name == logStartFile) {
			whole = false
		}
		if p != nil {
			fmt.Fprintf(h, "%s %d %s", name, len(p), p)
		}
	}
	return fmt.Sprintf("%s%016x\n", sumMark, h.Sum64()), whole, nil
}

const closedText = "The logs here were closed in order, and " + cleanShutdownFile + " was written for them.\n"

// voidSuffix is appended to the name of a state that a broker's work has made obsolete. It is never
// read.
const voidSuffix = ".aside"

// takeDirectory reads Kafka's files in dir, and marks it as in use. It removes void if a Kafka
// broker has used the directory. The next open finds the same after a crash at any point, since
// the marks are removed last.
func takeDirectory(fsys vfs.FS, dir string, void []string) (k kafkaFiles, err error) {
	if k, err = readKafkaFiles(fsys, dir); err != nil {
		return k, err
	}
	if k.taken {
		if err := voidStates(fsys, dir); err != nil {
			return k, err
		}
		for _, name := range void {
			if err := removeDurably(fsys, dir, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return k, err
			}
		}
		k.taken, k.wasTaken = false, true // from here on states are of now
	}
	if k.closed {
		if err := removeDurably(fsys, dir, closedFile); err != nil {
			return k, err
		}
	}
	if k.marked {
		return k, removeDurably(fsys, dir, cleanShutdownFile)
	}
	return k, nil
}

func removeDurably(fsys vfs.FS, dir, name string) error {
	if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// leaveDirectory writes Kafka's files into dir and marks it as ours. All logs of the directory
// were closed in order.
func leaveDirectory(fsys vfs.FS, dir string, k *kafkaFiles) error {
	if err := fsys.Remove(filepath.Join(dir, cleanerFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := k.write(fsys, dir); err != nil { // syncs dir as well
		return err
	}
	sum, _, err := sumOfBrokersFiles(fsys, dir)
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, filepath.Join(dir, closedFile), []byte(closedText+sum+k.note))
}

// Note returns the text of LeaveNote from before the last Close. It is empty if the directory was
// not closed cleanly, or if a Kafka broker has used the directory since.
func (d *Directory) Note() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kafka.found
}

// Taken reports whether a Kafka broker has used the directory between the last Close and this open.
// The broker may have removed records by its own rules.
func (d *Directory) Taken() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kafka.wasTaken
}

// ReadNote returns the results of Note and Taken for a Directory that would be opened now. It
// opens and changes nothing.
func ReadNote(fsys vfs.FS, dir string) (note string, taken bool, err error) {
	var k kafkaFiles
	if err := k.readMarks(fsys, dir); err != nil {
		return "", false, fmt.Errorf("log: read marks of %s: %w", dir, err)
	}
	return k.found, k.taken, nil
}

// LeaveNote makes Close store a text for the next open of the directory, if every log was closed
// cleanly. A note is read once: it is durably deleted before anything else in the opened directory
// changes.
func (d *Directory) LeaveNote(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kafka.note = text
}

// voidStates sets the states of all logs in dir aside, and the marks of failed syncs, which speak
// of bytes that the broker has replaced. It is on stable storage when it returns.
func voidStates(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path, found := filepath.Join(dir, e.Name()), false
		for _, file := range []string{stateFile, provisionalFile, suspectFile} {
			name := filepath.Join(path, file)
			if _, err := fsys.Stat(name); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return err
			}
			found = true
			if err := fsys.Rename(name, name+voidSuffix); err != nil {
				return fmt.Errorf("set aside state that a broker has made obsolete: %w", err)
			}
		}
		if !found {
			continue
		}
		if err := fsys.SyncDir(path); err != nil {
			return err
		}
	}
	return nil
}
