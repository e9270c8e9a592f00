package replication

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// open starts the brokers whose directories exist, in this order:
//
//  1. All directories are checked. Nothing is written if one of them cannot be used. A broker whose
//     disk fails, now or later, or whose identity is damaged, is not started, if the others can
//     continue without it.
//  2. Directories with an identity are locked, or for a new cluster the first one. If other
//     processes have created identities meanwhile, open gives up and begins again (errOvertaken).
//  3. The newest copy of the metadata is read, if there are enough copies. It has the earlier
//     brokers: a new broker gets a new directory, while a broker that has lost its directory is not
//     started.
//  4. The controller takes over, in a new epoch on equal copies. Brokers that are here serve;
//     brokers that are new or were away join one after the other; the rest are fenced; partitions
//     get or lose their leaders accordingly.
//  5. The brokers load their directories, and lead.
func (c *Cluster) open() error {
	cfg := c.cfg // the given one, without the number of brokers
	all, err := cfg.locations()
	if err != nil {
		return err
	}
	claims, clusterID, err := cfg.checkLocations(all)
	if err != nil {
		return err
	}
	c.cfg.Brokers = int(claims[len(claims)-1].id)
	for _, l := range all {
		c.brokers[l.id] = &broker{location: l}
	}
	if c.clusterID = cmp.Or(clusterID, c.cfg.ClusterID); c.clusterID == "" {
		c.clusterID = topic.NewID().String()
	}
	c.founds = clusterID == "" && len(claims) == 1
	c.founders = clusterID == ""
	for i, cl := range claims {
		switch {
		case cl.failed != nil:
			c.leaveOut(cl.id, cl.failed)
		case i == 0 && clusterID == "", cl.meta != nil:
			if err := c.begin(cl); err != nil {
				return err
			}
		}
	}
	if clusterID != "" && cfg.wasOvertaken(claims) {
		return errOvertaken
	}
	ids := make([]int32, len(claims))
	for i, cl := range claims {
		ids[i] = cl.id
	}
	if err := c.openMetadata(claims, ids); err != nil {
		return err
	}
	c.version.Store(c.image.Version)
	c.ids.next, c.ids.end = c.image.NextProducerID, c.image.NextProducerID
	if err := c.takeOver(); err != nil {
		return err
	}
	if err := c.load(); err != nil {
		return err
	}
	for _, n := range c.nodes {
		c.brokers[n.id].phase = serving
		if n.founding != nil {
			c.fresh = n
			c.unsecured.Store(true)
			c.foundDue.After(foundAfter)
		}
	}
	c.founds, c.founders = false, false
	c.settleLoaded()
	return nil
}

// begin makes the node of a broker that is there when the cluster opens.
func (c *Cluster) begin(cl claim) error {
	b := c.brokers[cl.id]
	b.session, b.gone = vfs.NewSession(cl.fs), make(chan struct{})
	n, err := c.take(cl, b.session)
	if n != nil {
		c.nodes[n.id], b.node = n, n
	}
	created := c.meta == nil || !c.meta.IsNew() // else all of its brokers are needed
	if err == nil || !created || errors.As(err, new(*DirectoryError)) {
		return err
	}
	c.leaveOut(cl.id, err)
	return nil
}

// leaveOut continues without a broker whose disk fails while the cluster opens, or whose identity
// or copy of the metadata is damaged: it is not started.
func (c *Cluster) leaveOut(id int32, cause error) {
	message := "broker does not serve: its disk fails"
	if errors.Is(cause, ErrDamaged) {
		message = "broker does not serve: its directory is damaged"
	}
	c.logger.Error(message, slog.Int("broker", int(id)), slog.Any("err", cause))
	c.failures[id] = fmt.Errorf("broker %d: %w", id, cause)
	b := c.brokers[id]
	b.failed = cause
	delete(c.nodes, id)
	switch {
	case b.session == nil: // it was not even looked for
		return
	case b.node == nil:
		c.markDown(b)
		return
	}
	var l *metalog.Copy
	if c.meta != nil {
		l = c.meta.Surrender(id)
	}
	_ = c.bury(b, l) // its disk fails
}

// take locks a directory, which is made if it is new, and makes the broker's node. A node that it
// returns with an error has the directory still.
func (c *Cluster) take(cl claim, session *vfs.Session) (*node, error) {
	disk := cl.fs
	cl.fs = session
	cfg := log.DirectoryConfig{FS: cl.fs, MaxOpenFiles: c.cfg.MaxOpenFiles, Logger: c.logger, Unentered: c.founds}
	cfg.Void = []string{evidenceFile, earlierEvidenceFile} // a Kafka broker changes logs by its own rules
	var dir *log.Directory
	var err error
	if cl.meta == nil {
		err = cl.prepareRoot(c.founds)
	}
	if err == nil {
		dir, err = log.OpenDirectory(cl.root, cfg)
	}
	if err != nil {
		if reason := metalog.ReasonOf(err); reason != nil {
			return nil, directoryError(cl.root, reason, err)
		}
		return nil, fmt.Errorf("open %s: %w", cl.root, err)
	}
	n := c.newNode(cl.location, dir)
	n.session, n.disk = session, disk
	n.holdReserve()
	if err := c.identify(n, cl); err != nil {
		return n, err
	}
	return n, n.readEvidence()
}

func (c *Cluster) newNode(l location, dir *log.Directory) *node {
	base := log.Config{FS: l.fs, Dir: dir, CompactionMemory: c.cfg.CompactionMemory, Logger: c.logger}
	n := &node{
		location: l, dir: dir, logger: c.logger, incarnation: newIncarnation(l.fs.BootID()),
		base:     partition.Config{Log: base, ProducerIDExpiration: c.cfg.ProducerIDExpiration, MaxLag: c.cfg.ReplicaMaxLag, Logger: c.logger},
		schedule: schedule{retention: c.cfg.RetentionCheckInterval, compaction: c.cfg.CompactionInterval},
		opens:    make(chan struct{}, maxOpens), lookups: make(chan struct{}, maxOffsetLookups), closing: make(chan struct{}), metadata: nodeMetadata{c, l.id},
		replicas: map[record.TopicPartition]*replica{}, deletions: deletions{fs: l.fs, logger: c.logger},
		fetchers: map[int32]*follow.Fetcher{}, endings: map[record.TopicPartition]<-chan struct{}{},
	}
	n.lag.Do, n.asks.again.Do, n.evidence.alarm.Do, n.unsettled.Do = n.checkLag, n.askAgain, n.saveEvidenceOften, n.settleFailed
	n.deletions.alarm.Do = n.deletions.run
	n.base.Log.Beside = n.syncTopicID
	n.base.Durable = n.noteProgress
	if c.cfg.Transactions != nil {
		n.base.Verify = c.txns.ask
	}
	return n
}

// takeOver records the serving brokers in the metadata.
func (c *Cluster) takeOver() error {
	c.noteController()
	var up []image.Arrival
	var arrived, others []*node
	unsecured := map[int32]error{}
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[id]
		n.recall(n.dir.Note())
		if c.hasSeveral() {
			err := n.secureIncarnation()
			if _, known := c.image.Members[id]; err != nil && !known && c.meta.Has(id) { // a new cluster needs all
				return fmt.Errorf("open cluster: %w", err)
			}
			if err != nil {
				unsecured[id] = err
				continue
			}
		}
		if c.meta.Has(id) {
			up, arrived = append(up, n.arrival()), append(arrived, n)
		} else {
			others = append(others, n)
			n.powerCut = false // it is fenced by this change: its partitions get a leader, and an epoch, when it joins
		}
	}
	if len(arrived) == 0 && len(unsecured) > 0 {
		return fmt.Errorf("open cluster: %w", errors.Join(slices.Collect(maps.Values(unsecured))...))
	}
	lost := c.mayBeLost(arrived)
	err := c.perform(func(img *image.Image) ([]metarecord.Record, error) {
		return slices.Concat(img.TakeOver(up, c.rules), lost, img.ReserveProducerIDs(c.Controller(), producerIDBlock)), nil
	}, c.addProducerIDs)
	for _, n := range others {
		if err != nil {
			break
		}
		if failed := c.joinWhole(n); failed != nil && c.meta.Failure() == nil {
			c.leaveOut(n.id, failed)
		} else {
			err = failed
		}
	}
	for id, failed := range unsecured { // it is fenced by this change
		if err == nil && c.meta.Has(id) {
			err = c.expel(id)
		}
		if err == nil {
			c.leaveOut(id, failed)
		}
	}
	if err == nil {
		err = c.relead()
	}
	if err != nil {
		return fmt.Errorf("open cluster: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		if !c.meta.Has(id) { // fenced by one of these changes
			c.leaveOut(id, c.meta.Keeps(id))
		}
	}
	return nil
}

// arrival returns the controller's data of a broker that starts, or that joins again: then nothing
// is lost except the losses that it reported when it started.
func (n *node) arrival() image.Arrival {
	if n.isolated.Load() {
		return image.Arrival{ID: n.id, Incarnation: n.incarnation, Directory: n.directory, Rack: n.rack, Clean: true}
	}
	return image.Arrival{
		ID: n.id, Incarnation: n.incarnation, Directory: n.directory, Rack: n.rack, Clean: n.orderly, Missing: n.missing, Offline: n.broken,
	}
}

// load opens the partitions of all brokers, and lets them lead. Partitions that may have lost
// records get a new leader epoch between the two.
func (c *Cluster) load() error {
	nodes := byid.Values(c.nodes)
	opened, failed := make([][]*loaded, len(nodes)), make([]error, len(nodes))
	_ = forEach(nodes, func(i int, n *node) error {
		opened[i], failed[i] = n.load()
		return nil // a broker that fails is not started
	})
	var err error
	for i, n := range nodes {
		if failed[i] != nil && err == nil {
			err = c.cannotLoad(n, opened[i], failed[i])
			opened[i] = nil
		}
	}
	all := slices.Concat(opened...)
	if err == nil {
		err = c.discountLosses(byid.Values(c.nodes), all)
	}
	if err == nil {
		err = c.electFurthest(all)
	}
	if err == nil {
		err = c.electAgain(all)
	}
	if err == nil {
		err = c.skipProducerIDs(all)
	}
	if err != nil {
		return errors.Join(err, closeLoaded(all))
	}
	return forEach(nodes, func(i int, n *node) error {
		n.serve(opened[i])
		return nil
	})
}

// cannotLoad takes a broker out whose directory cannot be read.
// It is an error if it is the last one.
func (c *Cluster) cannotLoad(n *node, opened []*loaded, cause error) error {
	_ = closeLoaded(opened) // the disk fails
	if len(c.nodes) == 1 {
		return cause
	}
	if err := c.expel(n.id); err != nil {
		return errors.Join(cause, err)
	}
	c.leaveOut(n.id, cause)
	return nil
}

func closeLoaded(all []*loaded) error {
	return forEach(all, func(_ int, l *loaded) error { return l.p.Close() })
}

// electAgain begins a new leader epoch for partitions that may have lost records that readers had
// seen: their offsets may be given to others, and only another leader epoch lets a reader notice
// (KIP-320). Partitions with several replicas had theirs when their brokers registered.
func (c *Cluster) electAgain(all []*loaded) error {
	var recs []metarecord.Record
	for _, l := range all {
		if l.alone() && l.mayHaveLost() {
			recs = append(recs, image.BeginEpoch(l.r.id, l.r.tp.Partition, l.r.node.id))
		}
	}
	for chunk := range slices.Chunk(recs, image.MaxNewPartitions) {
		err := c.perform(func(*image.Image) ([]metarecord.Record, error) { return chunk, nil }, nil)
		if err != nil {
			return err
		}
	}
	return nil
}
