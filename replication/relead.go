package replication

import (
	"log/slog"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// relead adapts the leaders of partitions to the serving brokers. After a change of the set there
// is an ordinary change in any case: from it a copy shows that the set was committed. A failed
// change is made before the next one.
func (c *Cluster) relead() (err error) {
	defer func() { c.releadDue = err != nil }()
	for {
		done := false
		err := c.perform(func(img *image.Image) ([]metarecord.Record, error) {
			recs := img.Relead(image.MaxNewPartitions, c.rules)
			if done = len(recs) == 0; done && !c.meta.IsSealed() {
				recs = append(recs, &metarecord.NoOp{})
			}
			return recs, nil
		}, nil)
		// The change contained nothing else, so it is tried again next time.
		if err != nil && done {
			c.logger.Warn("no copy of the metadata says that its set was committed", slog.Any("err", err))
			return nil
		}
		if err != nil || done {
			return err
		}
	}
}

// discountLosses removes brokers from the ISRs of partitions with several replicas that they have
// lost, or cannot open, all by one change: then every replica that was in sync can lead when it has
// its files again. Replicas that were found again count from now on. They are registered, and
// do not lead yet.
func (c *Cluster) discountLosses(nodes []*node, opened []*loaded) error {
	var all []image.Arrival
	for _, n := range nodes {
		a := image.Arrival{ID: n.id, Clean: true, Missing: n.missing, Offline: n.broken}
		for _, l := range opened {
			if l.r.node == n && n.metadata.isMissing(l.r) && !slices.Contains(n.missing, l.r.place()) {
				a.Found = append(a.Found, l.r.place())
			}
		}
		if len(a.Missing)+len(a.Offline)+len(a.Found) > 0 {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return c.discount(all...)
}

// electFurthest elects, in each partition with several replicas, the replica with the longest log
// if the leader's is shorter. A log that was truncated while the cluster was not open, or replaced
// by an older one, must not be authoritative. Only in-sync replicas are compared, so each has all
// acknowledged records unless that has happened. No replica leads yet.
func (c *Cluster) electFurthest(all []*loaded) error {
	best := map[place]*loaded{}
	for _, l := range all {
		t := l.r.node.metadata.topicOf(l.r.tp, l.r.id)
		if t == nil || l.gone {
			continue
		}
		p := &t.Partitions[l.r.tp.Partition]
		if !isSeveral(p) || p.Leader < 0 || !slices.Contains(p.ISR, l.r.node.id) {
			continue
		}
		at := l.r.place()
		if b := best[at]; b == nil || b.behind(l) || !l.behind(b) && l.r.node.id == p.Leader {
			best[at] = l
		}
	}
	leaders := map[place]int32{}
	for at, l := range best {
		if t := l.r.node.metadata.topicOf(l.r.tp, l.r.id); t.Partitions[at.Partition].Leader != l.r.node.id {
			leaders[at] = l.r.node.id
			c.logger.Warn("another replica has more than the leader had, and leads", slog.String("topic", l.r.tp.Topic),
				slog.Int("partition", int(l.r.tp.Partition)), slog.Int("leader", int(l.r.node.id)))
		}
	}
	for done := len(leaders) == 0; !done; {
		err := c.perform(func(img *image.Image) ([]metarecord.Record, error) {
			recs := img.Prefer(leaders, image.MaxNewPartitions, c.rules)
			done = len(recs) == 0
			return recs, nil
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// behind reports whether another replica's log has a newer last epoch or a larger end.
func (l *loaded) behind(other *loaded) bool {
	mine, its := l.p.Position(), other.p.Position()
	return mine.LastEpoch < its.LastEpoch || mine.LastEpoch == its.LastEpoch && mine.Offset < its.Offset
}

// discount removes starting brokers from the sets of partitions with several replicas whose records
// they may have lost. A broker that is still fenced need not start after that.
func (c *Cluster) discount(all ...image.Arrival) error {
	for {
		done := false
		err := c.perform(func(img *image.Image) ([]metarecord.Record, error) {
			recs := img.Return(image.MaxNewPartitions, c.rules, all...)
			done = len(recs) == 0
			return recs, nil
		}, nil)
		if err != nil || done {
			return err
		}
	}
}
