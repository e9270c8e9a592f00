package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/vfs"
)

// A Kafka broker may have had a directory since we had it. It knows nothing of strata.state: it may
// have compacted, rolled and removed segments of which a state says something else. So such
// states are void, all of the directory's, until each log gets a new one from what the
// broker left (package recovery: adopt).
//
// A broker removes the marker of a clean shutdown when it starts, and writes its own when it stops
// in order. Ours tells that nobody had the directory since; none tells nothing by itself, since we
// remove it too. Therefore closedFile: it is there only while our marker is. So in this order, each
// step on stable storage before the next:
//
//	Close          writes the marker, then closedFile
//	OpenDirectory  removes closedFile, then the marker
//
// closedFile without our marker is a broker's doing, whether it was stopped or killed. (A broker
// that takes a directory which we did not close in order, and is killed, is not told from nobody.)
const closedFile = "strata.closed"

const closedText = "The logs here were closed in order, and " + cleanShutdownFile + " was written for them.\n"

// voidSuffix is put behind the name of a state that a broker's work has made old. Nobody reads it.
const voidSuffix = ".aside"

// takeDirectory reads what Kafka keeps in dir, and makes it a directory that is in use. Every crash
// leaves one of which the next open finds the same: the marks go last.
func takeDirectory(fsys vfs.FS, dir string) (k kafkaFiles, err error) {
	if k, err = readKafkaFiles(fsys, dir); err != nil {
		return k, err
	}
	if k.taken {
		if err := voidStates(fsys, dir); err != nil {
			return k, err
		}
		k.taken = false // from here on states are of now
	}
	if k.closed {
		if err := removeDurably(fsys, dir, closedFile); err != nil {
			return k, err
		}
	}
	if k.clean {
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

// leaveDirectory writes what Kafka keeps in dir, and that it is ours, for a
// directory whose logs were all closed in order.
func leaveDirectory(fsys vfs.FS, dir string, k *kafkaFiles) error {
	if err := k.write(fsys, dir); err != nil {
		return err
	}
	return vfs.WriteFile(fsys, filepath.Join(dir, closedFile), []byte(closedText+k.note))
}

// Note returns what LeaveNote was told before the directory was closed the last time. It is empty
// if that was not in order, or a Kafka broker has had the directory since.
func (d *Directory) Note() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kafka.found
}

// LeaveNote has Close leave a text for whoever opens the directory next, if everything was closed
// in order. A note is read once: it is gone, on stable storage, before anything else in an opened
// directory changes.
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
				return fmt.Errorf("set aside what a broker has made old: %w", err)
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
