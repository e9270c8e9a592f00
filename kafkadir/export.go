package kafkadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// ExportConfig configures Export.
type ExportConfig struct {
	// Dir is the directory of a cluster, as in strata.Config. It must not be open. The directories
	// of all its brokers must be in it.
	Dir string
	// To is the log directory to create. It must not exist, or must be empty. For a cluster of
	// several brokers, it gets a log directory broker-N for each broker.
	To string

	FS         vfs.FS         // the file system of both; nil means the operating system's
	OnProgress func(Progress) // called after each file, by one goroutine at a time; may be nil

	workers int           // number of partitions copied concurrently; 0 means 8
	catchUp time.Duration // how long replicas may take to reach their leader's end; 0 means 30 s
}

// Export creates the log directory of a Kafka broker from a cluster's directory. A broker and
// controller of Kafka 4.0 or later starts on it as after its own clean shutdown. Export keeps the
// cluster's id and all topics with their ids, configurations, records, producers and open
// transactions, the offsets of groups, users and access control entries.
//
// The broker's server.properties must have
//
//	process.roles=broker,controller
//	node.id=1
//	controller.quorum.voters=1@HOST:PORT
//	log.dirs=TO
//
// and its listeners. A cluster of several brokers becomes one of Kafka with the same broker ids,
// replicas and leaders. Each broker's node.id is its id, and its log.dirs is TO/broker-ID. Each
// directory has the metadata, so each broker may be a controller. controller.quorum.voters, which
// is the same for all, has the controllers: one or three of the brokers. A replica that does not
// reach the end of its leader within 30 s, or is damaged, is left out and listed in Report.Behind:
// it is not in sync, and Kafka copies it again. Export fails if all replicas in sync are damaged.
//
// Do not format a directory with StorageTool. The metadata have
// metadata.version 4.0, which kafka-features upgrades. Settings of the process that serves Dir, and
// Strata's own defaults, are in no file. For example, Strata syncs a topic without flush.messages
// before it acknowledges records, and Kafka does not.
//
// Export opens Dir, which recovers it if the process that served it was killed, and closes it
// cleanly. Nothing else in Dir changes, and it may be opened again. The copy shares nothing with
// it. Export blocks until all of the copy is on stable storage. If ctx ends, Export ends early and
// creates nothing.
//
// Errors: ErrInUse; ErrBrokerMissing; ErrForeign if there is no cluster in Dir; those of
// replication.Open; *DamagedError; an error matching fs.ErrExist if To is not empty, or
// fs.ErrInvalid if Dir or To is empty or one is inside the other; the context's error; and disk
// errors. If the last step fails, which makes the name of To durable, To may exist all the same,
// and is complete then.
func Export(ctx context.Context, cfg ExportConfig) (*Report, error) {
	report, err := runExport(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("export to %s: %w", cfg.To, err)
	}
	return report, nil
}

func runExport(ctx context.Context, cfg ExportConfig) (report *Report, err error) {
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.workers == 0 {
		cfg.workers = 8
	}
	if cfg.Dir == "" || cfg.To == "" {
		return nil, fmt.Errorf("%w: it takes a directory to export, and one to make beside it", fs.ErrInvalid)
	}
	if within(cfg.FS, cfg.To, cfg.Dir) || within(cfg.FS, cfg.Dir, cfg.To) {
		return nil, fmt.Errorf("%w: %s and %s lie in each other", fs.ErrInvalid, cfg.Dir, cfg.To)
	}
	if _, err := isFree(cfg.FS, filepath.Clean(cfg.To)); err != nil {
		return nil, err
	}
	if cfg.catchUp == 0 {
		cfg.catchUp = 30 * time.Second
	}
	ex := &exporting{cfg: cfg, copier: copier{fsys: cfg.FS}, report: &Report{Clean: true, Metadata: true}}
	if err := ex.look(ctx); err != nil {
		return nil, err
	}
	for _, b := range ex.brokers {
		lock, err := ex.hold(b.root)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	last := metaPropertiesFile
	if len(ex.brokers) > 1 {
		last = brokerDir(ex.brokers[0].id)
	}
	s, err := newStaging(cfg.FS, cfg.To, last)
	if err != nil {
		return nil, err
	}
	if err := ex.write(ctx, s.tmp); err != nil {
		return nil, errors.Join(err, s.abort())
	}
	return ex.report, s.finish()
}

// An exporting is one call of Export.
type exporting struct {
	cfg    ExportConfig
	copier copier
	meter  meter
	report *Report

	brokers []*exportedBroker // by id
	topics  []topic.Info
	recs    []metarecord.Record // of the metadata, without topics
}

// An exportedBroker is one broker of the cluster and of the copy.
type exportedBroker struct {
	id        int32
	root      string                          // of its partitions in the cluster
	directory topic.ID                        // of the new directory
	ends      map[record.TopicPartition]int64 // of the replicas with records that reach their leaders' ends
	starts    map[record.TopicPartition]int64
}

func brokerDir(id int32) string { return "broker-" + strconv.Itoa(int(id)) }

// look opens the cluster, reads its metadata, and closes it cleanly.
func (ex *exporting) look(ctx context.Context) error {
	fsys := ex.cfg.FS
	if there, err := hasCluster(fsys, ex.cfg.Dir); err != nil {
		return err
	} else if !there { // it would be founded
		return fmt.Errorf("%w: there is no cluster in %s", ErrForeign, ex.cfg.Dir)
	}
	if err := allThere(vfs.ReadOnly(fsys), ex.cfg.Dir); err != nil {
		return err
	}
	c, err := replication.Open(replication.Config{
		Dir: ex.cfg.Dir, FS: fsys, RetentionCheckInterval: never, CompactionInterval: never, LeaderBalanceInterval: never,
	})
	if errors.Is(err, replication.ErrLocked) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if e, ok := errors.AsType[*replication.DirectoryError](err); ok && (e.Reason == replication.ErrMissing || e.Reason == replication.ErrMetadataWentBack) {
		e.Advice = "put it back, or restore a backup" // not Config.AcceptMetadataLoss: an export has no need to lose metadata
	}
	if err != nil {
		return err
	}
	return errors.Join(ex.take(ctx, c), c.Close())
}

// allThere returns ErrBrokerMissing if a broker of the cluster has no directory in dir: an open
// would regard it as lost. It returns ErrForeign for a directory of Kafka's. Metadata that cannot
// be read are left to the open.
func allThere(fsys vfs.FS, dir string) error {
	copies, err := readCopies(fsys, dir)
	if errors.Is(err, ErrForeign) {
		return err
	}
	if err != nil || copies.newest == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(copies.newest.directories)) {
		if !slices.Contains(copies.there, id) {
			return fmt.Errorf("%w: the cluster has replicas on broker %d, which has no directory in %s: %s", ErrBrokerMissing, id, dir, bringTo(dir, id))
		}
	}
	return nil
}

// bringTo is the advice for a broker without a directory in dir.
func bringTo(dir string, id int32) string {
	return "move the broker's directory to " + filepath.Join(dir, brokerDir(id))
}

// hasCluster reports whether a broker has formatted its directory in dir.
func hasCluster(fsys vfs.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range entries {
		if _, is := brokerID(e.Name()); !is {
			continue
		}
		if _, serr := fsys.Stat(filepath.Join(dir, e.Name(), metaPropertiesFile)); serr == nil {
			return true, nil
		} else if !errors.Is(serr, fs.ErrNotExist) {
			return false, serr
		}
	}
	return false, err
}

// brokerID returns the broker of a directory broker-N.
func brokerID(name string) (id int32, ok bool) {
	number, ok := strings.CutPrefix(name, "broker-")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), ok && err == nil && n > 0
}

// take reads the metadata, settings and ends of an open cluster.
func (ex *exporting) take(ctx context.Context, c *replication.Cluster) (err error) {
	for _, id := range c.Members() {
		if c.LogDir(id) == "" { // a damaged copy of the metadata: a start makes a new one
			if err := c.StartBroker(ctx, id); err != nil && !errors.Is(err, replication.ErrBrokerRunning) {
				return fmt.Errorf("%w: %w", ErrBrokerMissing, err)
			}
		}
		b := &exportedBroker{id, c.LogDir(id), topic.NewID(), map[record.TopicPartition]int64{}, map[record.TopicPartition]int64{}}
		if b.root == "" {
			return fmt.Errorf("%w: broker %d does not run", ErrBrokerMissing, id)
		}
		ex.brokers = append(ex.brokers, b)
		ex.report.Brokers = append(ex.report.Brokers, id)
	}
	ex.report.Broker = ex.brokers[0].id
	if err := ex.awaitReplicas(ctx, c); err != nil {
		return err
	}
	if ex.topics, err = c.Topics(ctx); err != nil {
		return err
	}
	ex.report.ClusterID = c.ClusterID()
	ex.report.OpenTransactions = len(c.OpenTransactions(whenever))
	for _, t := range ex.topics {
		for i := range t.Partitions {
			if err := ex.takePartition(c, t.Name, &t.Partitions[i]); err != nil {
				return err
			}
		}
		ex.report.Topics = append(ex.report.Topics, TopicReport{Name: t.Name, ID: t.ID, Partitions: len(t.Partitions), Bytes: t.SizeBytes()})
	}
	next, _, err := c.InitProducerID(ctx)
	if err != nil {
		return err
	}
	ex.report.NextProducerID = next
	ex.takeRecords(c)
	return nil
}

// awaitReplicas waits until all replicas are in sync and as long as their leaders' logs: no client
// writes to this cluster. It waits for catchUp at most, because a replica's disk may fail.
func (ex *exporting) awaitReplicas(ctx context.Context, c *replication.Cluster) error {
	const pause = 10 * time.Millisecond // the ends of followers cannot be waited for
	topics, err := c.Topics(ctx)
	if err != nil {
		return err
	}
	var behind []record.TopicPartition
	for _, t := range topics {
		for _, p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Name, Partition: p.Partition}
			for _, id := range p.Replicas {
				if ex.broker(id) == nil {
					return fmt.Errorf("%w: partition %s has a replica on broker %d, which has no directory in %s", ErrBrokerMissing, partitionName(tp), id, ex.cfg.Dir)
				}
			}
			if len(p.Replicas) > 1 {
				behind = append(behind, tp)
			}
		}
	}
	for limit := time.Now().Add(ex.cfg.catchUp); ; {
		behind = slices.DeleteFunc(behind, func(tp record.TopicPartition) bool {
			s := c.Status(tp.Topic, tp.Partition)
			return !slices.ContainsFunc(s.Copies, func(r replication.ReplicaStatus) bool { return !atEnd(s, r) })
		})
		if len(behind) == 0 || time.Now().After(limit) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// atEnd reports whether a replica is in sync and has all records of its leader.
func atEnd(s replication.Status, r replication.ReplicaStatus) bool {
	return r.InSync && r.Err == nil && r.LogEndOffset == s.LogEndOffset
}

// takePartition reads the ends of a partition's replicas. It removes from the ISR the replicas that
// are behind.
func (ex *exporting) takePartition(c *replication.Cluster, name string, p *topic.PartitionInfo) error {
	tp := record.TopicPartition{Topic: name, Partition: p.Partition}
	s := c.Status(name, p.Partition)
	if err := cmp.Or(p.Err, s.Err); err != nil {
		return fmt.Errorf("%w: partition %s: %w", ErrDamaged, partitionName(tp), err)
	}
	if p.Leader < 0 {
		return fmt.Errorf("%w: partition %s has no leader", ErrDamaged, partitionName(tp))
	}
	if written, err := c.Written(tp); err != nil || !written {
		return err
	}
	p.ISR = nil
	for _, r := range s.Copies {
		b := ex.broker(r.Broker)
		if r.Broker != s.Leader && !atEnd(s, r) {
			ex.report.Behind = append(ex.report.Behind, ReplicaBehind{TopicPartition: tp, Broker: r.Broker})
			continue
		}
		p.ISR = append(p.ISR, r.Broker)
		files, err := c.View(r.Broker).Replica(tp)
		if err != nil {
			return fmt.Errorf("%w: partition %s on broker %d: %w", ErrDamaged, partitionName(tp), r.Broker, err)
		}
		if files != nil { // a replica without records has none
			b.ends[tp], b.starts[tp] = r.LogEndOffset, r.LogStartOffset
		}
	}
	return nil
}

// broker returns a broker of the copy, nil if it has none of that id.
func (ex *exporting) broker(id int32) *exportedBroker {
	for _, b := range ex.brokers {
		if b.id == id {
			return b
		}
	}
	return nil
}

// hold takes the lock of a broker's directory, which must be as look has left it.
func (ex *exporting) hold(root string) (io.Closer, error) {
	lock, err := ex.cfg.FS.Lock(filepath.Join(root, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, root)
	}
	if err != nil {
		return nil, err
	}
	for _, mark := range []string{cleanShutdownFile, "strata.closed"} {
		if _, err := ex.cfg.FS.Stat(filepath.Join(root, mark)); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s was opened meanwhile, or could not be closed in order: %w", ErrInUse, root, err), lock.Close())
		}
	}
	return lock, nil
}
