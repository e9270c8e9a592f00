package replication

import (
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// relead brings the leaders of partitions in line with which brokers serve. Behind a change of the
// set there is an ordinary one afterwards in any case: by it a copy knows that the set was
// committed. What fails is done before the next change.
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
		if err != nil && done { // nothing was to be done but that; the next time it is tried again
			c.logger.Warn("no copy of the metadata says that its set was committed", slog.Any("err", err))
			return nil
		}
		if err != nil || done {
			return err
		}
	}
}

// discount makes partitions with several replicas not count on what a broker that starts may have
// lost. It is fenced still, so that nothing of this is in effect if it does not start after all.
func (c *Cluster) discount(a image.Arrival) error {
	for {
		done := false
		err := c.perform(func(img *image.Image) ([]metarecord.Record, error) {
			recs := img.Return(a, image.MaxNewPartitions, c.rules)
			done = len(recs) == 0
			return recs, nil
		}, nil)
		if err != nil || done {
			return err
		}
	}
}
