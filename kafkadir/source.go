package kafkadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A source is one log directory of a Kafka broker. It is locked, so that no broker opens it.
type source struct {
	fsys vfs.FS // refuses every change
	dir  string
	lock io.Closer // nil: there is no .lock

	properties
	clean             bool
	partitions        map[record.TopicPartition]found
	recovered, starts map[record.TopicPartition]int64
	highs, cleaned    map[record.TopicPartition]int64
	cleaner           bool // there is a checkpoint of the cleaner: it runs
	leftOut           []string
	metadata          bool // __cluster_metadata-0 is there
	tiered            bool // the broker had tiered storage
}

// found is the directory of a partition.
type found struct {
	dir   string
	id    topic.ID // zero: the directory has none (Kafka before 2.8)
	epoch int32    // newest of leader-epoch-checkpoint, -1: none
	files []fs.DirEntry
	bytes int64
	start int64 // of log-start-offset-checkpoint
	point int64 // of recovery-point-offset-checkpoint; -1: not there
	high  int64 // of replication-offset-checkpoint; -1: not there

	firstEpoch int64 // where the oldest epoch of leader-epoch-checkpoint begins, -1: there is none
	untouched  bool  // by compaction, as cleaner-offset-checkpoint has it
}

// openSource locks a directory and reads its small files.
func openSource(fsys vfs.FS, dir string) (s *source, err error) {
	s = &source{fsys: vfs.ReadOnly(fsys), dir: filepath.Clean(dir), partitions: map[record.TopicPartition]found{}}
	if info, err := fsys.Stat(s.dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is no directory", ErrForeign, s.dir)
	}
	if err := s.hold(fsys); err != nil {
		return nil, err
	}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// hold takes the lock of the directory, so that no broker opens it, and changes nothing.
func (s *source) hold(fsys vfs.FS) error {
	lock, err := vfs.LockShared(fsys, filepath.Join(s.dir, lockFile))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a broker makes one at its first start: see untouched
		return nil
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("%w: %s: stop the broker first", ErrInUse, s.dir)
	case err != nil:
		return fmt.Errorf("%w: %s: cannot determine whether a broker is running: %w", ErrInUse, s.dir, err)
	}
	s.lock = lock
	return nil
}

// untouched returns an error if a broker has opened a directory that had no lock.
func (s *source) untouched() error {
	if s.lock != nil {
		return nil
	}
	switch _, err := s.fsys.Stat(filepath.Join(s.dir, lockFile)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s: it was opened meanwhile", ErrInUse, s.dir)
}

func (s *source) close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// read reads whose directory it is, how it was left, and which partitions it has.
func (s *source) read() error {
	path := filepath.Join(s.dir, metaPropertiesFile)
	text, ok, err := readText(s.fsys, path)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: there is no %s in %s", ErrForeign, metaPropertiesFile, s.dir)
	}
	if s.properties, err = parseProperties(path, text); err != nil {
		return err
	}
	if _, s.clean, err = readText(s.fsys, filepath.Join(s.dir, cleanShutdownFile)); err != nil {
		return err
	}
	for name, offsets := range map[string]*map[record.TopicPartition]int64{
		recoveryPointFile: &s.recovered, logStartFile: &s.starts, highWatermarkFile: &s.highs, cleanerFile: &s.cleaned,
	} {
		path := filepath.Join(s.dir, name)
		text, ok, err := readText(s.fsys, path)
		if err != nil {
			return err
		}
		if *offsets, err = parseCheckpoint(path, text); err != nil {
			return err
		}
		s.cleaner = s.cleaner || ok && name == cleanerFile
	}
	return s.list()
}

// list finds the partitions.
func (s *source) list() error {
	entries, err := s.fsys.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		tp, ok := splitPartition(e.Name())
		s.tiered = s.tiered || e.Name() == tieredDir
		switch path := filepath.Join(s.dir, e.Name()); {
		case e.Name() == metadataDir:
			s.metadata = true
		case !e.IsDir() && e.Type()&fs.ModeSymlink == 0:
		case ok:
			if err := s.find(tp, path); err != nil {
				return err
			}
		case strings.HasSuffix(e.Name(), "-delete"), strings.HasSuffix(e.Name(), "-stray"):
			s.leftOut = append(s.leftOut, path+": the topic was deleted")
		case strings.HasSuffix(e.Name(), "-future"):
			s.leftOut = append(s.leftOut, path+": an unfinished move between log directories")
		default:
			s.leftOut = append(s.leftOut, path+": no partition")
		}
	}
	return nil
}

// find takes in the directory of a partition.
func (s *source) find(tp record.TopicPartition, dir string) (err error) {
	f := found{dir: dir, epoch: -1, start: s.starts[tp], point: -1, high: -1, firstEpoch: -1}
	if at, ok := s.recovered[tp]; ok {
		f.point = at
	}
	if at, ok := s.highs[tp]; ok {
		f.high = at
	}
	_, cleaned := s.cleaned[tp]
	f.untouched = s.cleaner && !cleaned
	if f.files, err = s.fsys.ReadDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, partitionFile)
	text, ok, err := readText(s.fsys, path)
	if err == nil && ok {
		f.id, err = parsePartitionMetadata(path, text)
	}
	if err != nil {
		return err
	}
	path = filepath.Join(dir, epochFile)
	if text, ok, err = readText(s.fsys, path); err == nil && ok {
		f.epoch, f.firstEpoch, err = parseEpochs(path, text)
	}
	if err != nil {
		return err
	}
	for _, e := range f.files {
		if info, err := e.Info(); err == nil && !info.IsDir() {
			f.bytes += info.Size()
		}
	}
	s.partitions[tp] = f
	return nil
}
