package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A Cluster is a cluster of brokers in one process. All methods are safe for concurrent use.
//
// The way of a change of metadata: decided by the controller against the image, written to its log
// as one batch, applied to the image, followed by the broker. The image at open comes from the same
// log through the same apply.
type Cluster struct {
	cfg       Config
	defaults  map[string]string // the keys of cfg.Defaults
	logger    *slog.Logger
	clusterID string
	dir       *log.Directory
	broker    *broker
	meta      *metaLog
	stats     counters
	rotation  fetchRotation
	ids       producerIDs

	removals atomic.Int64 // topics that were deleted; counted with changing held, read by backups

	// changing has room for one: who changes the metadata puts a value in, from the decision until
	// all that the change implies is done. A backup does while it copies the metadata.
	changing chan struct{}
	closing  chan struct{}  // closed when Close begins
	done     chan struct{}  // closed when it is through
	wg       sync.WaitGroup // changes under way

	mu       sync.RWMutex // guards the fields below; never held while waiting
	image    *image
	waiters  watermark.Queue[chan struct{}]
	closed   bool
	closeErr error

	version atomic.Int64 // image.version, for those who do not want the lock; written under mu
}

// brokerID is the one broker's.
const brokerID = 1

// Open opens the cluster in cfg.Dir, creating it, and recovers what is there: when it returns,
// every partition that has files is open, or offline because it is damaged (its calls say why, and
// so does Status). What a crash left half done, the creation or deletion of a topic, is finished.
//
// A directory that is in use, damaged, of a newer format or not ours is a *DirectoryError.
func Open(cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	defaults, err := cfg.Defaults.Explicit()
	if err != nil {
		return nil, fmt.Errorf("replication: Defaults: %w", err)
	}
	c := &Cluster{
		cfg: cfg, defaults: defaults, logger: cfg.Logger, image: newImage(),
		changing: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := c.open(); err != nil {
		close(c.closing)
		return nil, errors.Join(err, c.shut())
	}
	return c, nil
}

func (c *Cluster) open() error {
	root := filepath.Join(c.cfg.Dir, fmt.Sprintf("broker-%d", brokerID))
	meta, err := c.claimDirectory(root)
	if err != nil {
		return err
	}
	c.clusterID = meta.clusterID
	base := log.Config{FS: c.cfg.FS, Dir: c.dir, CompactionMemory: c.cfg.CompactionMemory, Logger: c.logger}
	if c.meta, err = openMetaLog(filepath.Join(root, topic.MetadataTopic+"-0"), base, c.image, c.cfg.metaSlack); err != nil {
		return err
	}
	c.version.Store(c.image.version)
	c.ids.next, c.ids.end = c.image.nextProducerID, c.image.nextProducerID
	c.broker = &broker{
		id: brokerID, root: root, fs: c.cfg.FS, dir: c.dir, logger: c.logger,
		base:     partition.Config{Log: base, ProducerIDExpiration: c.cfg.ProducerIDExpiration, Logger: c.logger},
		schedule: schedule{retention: c.cfg.RetentionCheckInterval, compaction: c.cfg.CompactionInterval},
		opens:    make(chan struct{}, maxOpens), closing: c.closing, lookup: c.assignment,
		replicas: map[record.TopicPartition]*replica{}, deleteDelay: c.deleteDelay, deletions: deletions{fs: c.cfg.FS, logger: c.logger},
	}
	c.broker.deletions.alarm.Do = c.broker.deletions.run
	return c.broker.start(c.image, c.electAgain)
}

// electAgain begins a new leader epoch for partitions that may have lost records. It is for open,
// when nothing else happens.
func (c *Cluster) electAgain(lossy []*replica) error {
	for chunk := range slices.Chunk(lossy, maxNewPartitions) {
		err := c.perform(func(*image) ([]metarecord.Record, error) {
			recs := make([]metarecord.Record, len(chunk))
			for i, r := range chunk {
				recs[i] = &metarecord.PartitionChange{Partition: r.tp.Partition, TopicID: r.id, Leader: brokerID, Recovery: -1}
			}
			return recs, nil
		}, func([]metarecord.Record) {})
		if err != nil {
			return err
		}
	}
	return nil
}

// claimDirectory checks that the broker's directory is ours or new, creates and locks it.
func (c *Cluster) claimDirectory(root string) (*metaProperties, error) {
	fsys := c.cfg.FS
	if _, err := checkDirectory(fsys, root, brokerID); err != nil {
		return nil, err
	}
	if _, err := fsys.Stat(filepath.Join(c.cfg.Dir, metaPropertiesFile)); err == nil {
		return nil, directoryError(c.cfg.Dir, ErrForeign, errors.New("it is a broker's own directory, not a cluster's"))
	}
	var err error
	if c.dir, err = log.OpenDirectory(root, log.DirectoryConfig{FS: fsys, MaxOpenFiles: c.cfg.MaxOpenFiles, Logger: c.logger}); err != nil {
		return nil, openError(root, err)
	}
	meta, err := checkDirectory(fsys, root, brokerID) // again: only now nobody else can change it
	if err == nil && meta == nil {
		meta, err = createMeta(fsys, root, brokerID)
	}
	return meta, err
}

// assignment is the broker's view into the metadata.
func (c *Cluster) assignment(tp record.TopicPartition, id topic.ID) (a assignment, ok bool) {
	c.mu.RLock()
	t := c.image.byID[id]
	c.mu.RUnlock()
	if t == nil || int(tp.Partition) >= len(t.partitions) {
		return a, false
	}
	return assignment{settings: c.settings(t), leaderEpoch: t.partitions[tp.Partition].leaderEpoch, removed: c.wasRemoved}, true
}

// deleteDelay is the broker's own file.delete.delay.ms: that of a deleted topic went with it, as in
// Kafka.
func (c *Cluster) deleteDelay() time.Duration {
	s, _ := topic.Parse(nil, c.currentDefaults())
	return s.Partition(partition.Config{}).Log.DeleteDelay
}

func (c *Cluster) wasRemoved(id topic.ID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.removed[id] != ""
}

// settings are the effective settings of a topic. What is in the log was checked when it was
// written; keys that only a later version refuses are left out with a warning.
func (c *Cluster) settings(t *topicImage) topic.Settings {
	defaults := c.currentDefaults()
	s, err := topic.Parse(t.config, defaults)
	if err == nil {
		return s
	}
	c.logger.Warn("topic configuration is not valid, defaults are used", slog.String("topic", t.name), slog.Any("err", err))
	s, _ = topic.Parse(nil, defaults)
	return s
}

// Close refuses new calls, ends every wait with ErrClosed, waits for changes and cleaning under
// way, and closes all partitions. It may be called repeatedly and concurrently; each call returns
// when all is done, with the same error.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return c.closeErr
	}
	c.closed = true
	c.mu.Unlock()
	close(c.closing)
	c.wg.Wait()
	err := c.shut()
	c.mu.Lock()
	c.closeErr = err
	c.mu.Unlock()
	close(c.done)
	return err
}

// Shutdown is Close that stops waiting for it when ctx ends; the closing goes on then.
func (c *Cluster) Shutdown(ctx context.Context) error {
	result := make(chan error, 1)
	go func() { result <- c.Close() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shut closes what open has opened, in reverse.
func (c *Cluster) shut() error {
	var errs []error
	if c.broker != nil {
		errs = append(errs, c.broker.close())
	}
	if c.meta != nil {
		errs = append(errs, c.meta.log.Close())
	}
	if c.dir != nil {
		errs = append(errs, c.dir.Close())
	}
	return errors.Join(errs...)
}
