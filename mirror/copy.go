package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// CopyConfig describes a Copy. Dir is required.
type CopyConfig struct {
	// Dir is the directory of the copy. It is created if it does not exist.
	Dir string
	// Topics are the topics of the source to copy. Topics that the directory has already can be
	// read in any case. With __consumer_offsets among them, groups keep their offsets after Promote.
	// An internal topic may be missing at the source.
	Topics []string
	// AcceptTruncation removes records from the copy that the source has lost in an unclean election
	// or with a disk. Without it, Run ends with ErrTruncated, and the copy keeps them.
	AcceptTruncation bool

	FS     vfs.FS       // nil means the operating system's
	Logger *slog.Logger // nil discards everything
}

// A Copy keeps topics of a cluster in a directory of this machine, with the same offsets, leader
// epochs and transaction markers. It can be read while the cluster is unreachable. If the cluster is
// lost, Promote makes a new one of the copy.
//
// A Copy is a consumer.Backend. Its records are read from the directory. The methods of groups are
// the source's: a member of a group reads locally and commits at the source, where other members
// may read from the brokers. A record can be read when it is on stable storage here.
//
// Until Run has copied a topic for the first time, its readers wait. All methods are safe for
// concurrent use.
type Copy struct {
	consumer.ConsumerGroupBackend // of the source

	cfg    CopyConfig
	source Source // nil: none
	dir    *log.Directory

	closing context.Context // ends with Close
	end     context.CancelFunc
	close   sync.Once
	failed  error          // of Close
	runs    sync.WaitGroup // calls of Run

	mu      sync.Mutex // guards the fields below
	state   copyState
	parts   map[record.TopicPartition]*copied
	version int64         // of the metadata that readers see
	changed chan struct{} // closed when version changes
	running bool
	stats   CopyStats
	turn    int // where the next read of several partitions begins
}

// CopyStats is the state of a Copy.
type CopyStats struct {
	// Records is the number of offsets, and Bytes the size of the batches, that were copied since
	// OpenCopy.
	Records, Bytes int64
	// Lag is the number of offsets below the source's high watermarks that are not copied. -1 means
	// that the high watermark of a partition is not known yet.
	Lag int64
	// Skipped is the number of offsets that the source had deleted before they were copied.
	Skipped int64
	// Connected is the time since which the source responds; zero if Run is not active or it does
	// not.
	Connected   time.Time
	LastError   error // retried or not; nil if there was none
	LastErrorAt time.Time
}

// copied is the copy of one partition.
type copied struct {
	tp record.TopicPartition
	id topic.ID
	p  *partition.Partition

	// Guarded by Copy.mu:
	epoch     int32 // leader epoch at the source; 0 before it is known
	sourceEnd int64 // high watermark of the source; -1: unknown

	// Of Run:
	pause   time.Duration // after the last error
	retryAt time.Time
}

// brokerDir is the directory of partitions, as in a cluster's directory.
const brokerDir = "broker-1"

// OpenCopy opens the directory of a copy, and creates it if needed. It makes no request. source is
// used while the copy is open, and stays open. It may be nil: then the copy can be read, and Run
// and the methods of groups return ErrNoSource.
//
// Errors: a *topic.ConfigError; log.ErrLocked if the copy is open elsewhere; ErrPromoted;
// ErrDamagedCopy; and errors of the disk.
func OpenCopy(source Source, cfg CopyConfig) (*Copy, error) {
	c, err := openCopy(source, cfg)
	if err != nil {
		return nil, fmt.Errorf("mirror: copy in %s: %w", cfg.Dir, err)
	}
	return c, nil
}

func openCopy(source Source, cfg CopyConfig) (c *Copy, err error) {
	if cfg.Dir == "" {
		return nil, configError("Dir", "", "a copy needs a directory")
	}
	cfg.Topics = slices.Clone(cfg.Topics)
	for i, name := range cfg.Topics {
		if err := topic.ValidateName(name); err != nil {
			return nil, configError("Topics", name, "%v", err)
		}
		if slices.Contains(cfg.Topics[:i], name) {
			return nil, configError("Topics", name, "is there twice")
		}
	}
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c = &Copy{ConsumerGroupBackend: noGroups{}, cfg: cfg, source: source, parts: map[record.TopicPartition]*copied{}, changed: make(chan struct{})}
	if source != nil {
		c.ConsumerGroupBackend = source
	}
	if err := prepareCopyDir(cfg.FS, cfg.Dir); err != nil {
		return nil, err
	}
	if c.dir, err = openCopyDir(cfg.FS, cfg.Dir, cfg.Logger); err != nil {
		return nil, err
	}
	c.closing, c.end = context.WithCancel(context.Background())
	if c.state, err = readCopyState(cfg.FS, cfg.Dir); err == nil {
		err = c.openAll()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepareCopyDir makes a new directory a copy's, before anything else is in it: otherwise a cluster
// could be made in it.
func prepareCopyDir(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(filepath.Join(dir, copyStateFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch _, err := fsys.Stat(filepath.Join(dir, brokerDir)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if _, err := fsys.Stat(filepath.Join(dir, brokerDir, topic.MetadataTopic+"-0")); err == nil {
			return ErrPromoted
		}
		return fmt.Errorf("%w: %s is missing (put it back, or copy to a new directory)", ErrDamagedCopy, copyStateFile)
	}
	switch entries, err := vfs.ReadContent(fsys, dir); {
	case err == nil && len(entries) > 0:
		return &replication.DirectoryError{Dir: dir, Reason: replication.ErrForeign, Advice: "choose an empty directory",
			Err: fmt.Errorf("there is %s, and no copy", entries[0].Name())}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := vfs.MakeDir(fsys, dir, 0o700); err != nil {
		return err
	}
	return new(copyState).write(fsys, dir)
}

// openCopyDir locks the directory of a copy. Logs have no common journal, so that a cluster can use
// them later.
func openCopyDir(fsys vfs.FS, dir string, logger *slog.Logger) (*log.Directory, error) {
	root := filepath.Join(dir, brokerDir)
	d, err := log.OpenDirectory(root, log.DirectoryConfig{FS: fsys, JournalBytes: -1, Logger: logger})
	if err != nil {
		return nil, err
	}
	entries, err := fsys.ReadDir(root)
	for _, e := range entries {
		if e.Name() == topic.MetadataTopic+"-0" {
			err = ErrPromoted
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openAll opens the partitions that the directory has.
func (c *Copy) openAll() error {
	for _, t := range c.state.Topics {
		if err := c.openTopic(t); err != nil {
			return err
		}
	}
	err := c.noteOpened()
	c.publish()
	return err
}

// noteOpened notes that the partitions have directories: from now on a missing one is damage.
func (c *Copy) noteOpened() error {
	next := c.state.clone()
	changed := false
	for i := range next.Topics {
		if t := &next.Topics[i]; t.Opened < t.Partitions {
			t.Opened, changed = t.Partitions, true
		}
	}
	if !changed {
		return nil
	}
	err := c.cfg.FS.SyncDir(filepath.Join(c.cfg.Dir, brokerDir))
	if err == nil {
		err = next.write(c.cfg.FS, c.cfg.Dir)
	}
	if err == nil {
		c.mu.Lock()
		c.state = next
		c.mu.Unlock()
	}
	return err
}

// openTopic opens the partitions of a topic that are not open yet.
func (c *Copy) openTopic(t copiedTopic) error {
	for i := range t.Partitions {
		tp := record.TopicPartition{Topic: t.Name, Partition: int32(i)}
		c.mu.Lock()
		_, open := c.parts[tp]
		c.mu.Unlock()
		if open {
			continue
		}
		p, err := t.open(c.cfg.FS, c.cfg.Dir, c.dir, tp.Partition, c.cfg.Logger)
		if err != nil {
			return err
		}
		part := &copied{tp: tp, id: t.ID, p: p, sourceEnd: -1}
		if epoch := p.LastEpoch(); epoch > 0 {
			part.epoch = epoch
		}
		c.mu.Lock()
		c.parts[tp] = part
		c.mu.Unlock()
		if err := p.Follow(part.epoch); err != nil {
			return err
		}
	}
	return nil
}

// publish wakes the calls of WaitMetadata.
func (c *Copy) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	close(c.changed)
	c.changed = make(chan struct{})
}

// partitions returns the open partitions in order.
func (c *Copy) partitions() []*copied {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.parts), func(a, b *copied) int {
		if n := strings.Compare(a.tp.Topic, b.tp.Topic); n != 0 {
			return n
		}
		return int(a.tp.Partition) - int(b.tp.Partition)
	})
}

// Close ends Run and all reads, and closes the directory. It blocks until both are done. The source
// stays open.
func (c *Copy) Close() error {
	c.close.Do(func() {
		c.end()
		c.runs.Wait()
		for _, part := range c.partitions() {
			c.failed = errors.Join(c.failed, part.p.Close())
		}
		c.failed = errors.Join(c.failed, c.dir.Close())
	})
	return c.failed
}

// ClusterID returns the id of the source's cluster, "" if the copy is new and the source does not
// know it yet.
func (c *Copy) ClusterID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.ClusterID == "" && c.source != nil {
		return c.source.ClusterID()
	}
	return c.state.ClusterID
}

// Stats returns the present state. It makes no request.
func (c *Copy) Stats() CopyStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for _, name := range c.cfg.Topics {
		t := c.state.topic(name)
		if t == nil && topic.IsInternal(name) {
			continue
		}
		if t == nil {
			s.Lag = -1
			return s
		}
		for i := range t.Partitions {
			part := c.parts[record.TopicPartition{Topic: name, Partition: int32(i)}]
			if part == nil || part.sourceEnd < 0 {
				s.Lag = -1
				return s
			}
			s.Lag += max(part.sourceEnd-part.p.LogEndOffset(), 0)
		}
	}
	return s
}

// find returns the copy of a partition.
func (c *Copy) find(tp record.TopicPartition) (*copied, error) {
	if c.closing.Err() != nil {
		return nil, replication.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if part := c.parts[tp]; part != nil {
		return part, nil
	}
	return nil, c.unknown(tp.Topic)
}

// unknown is the error of a topic, or a partition, that the copy does not have. It passes if the
// source may have it.
func (c *Copy) unknown(name string) error {
	err := &replication.UnknownTopicError{Topic: name}
	if c.source != nil && slices.Contains(c.cfg.Topics, name) {
		return notCopiedYet{err}
	}
	return err
}

// notCopiedYet is the error of a topic that Run has not copied yet.
type notCopiedYet struct{ *replication.UnknownTopicError }

func (e notCopiedYet) Error() string {
	return "the copy does not have it yet: " + e.UnknownTopicError.Error()
}

// Unwrap returns an error that matches replication.ErrUnknownTopic.
func (e notCopiedYet) Unwrap() error { return e.UnknownTopicError }

// Retriable makes readers wait.
func (e notCopiedYet) Retriable() bool { return true }
