package replication

import (
	"cmp"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// An OpenTransaction is a transaction without a marker in one partition.
type OpenTransaction struct {
	Partition record.TopicPartition
	Leader    int32 // the broker that leads Partition and has reported the transaction
	partition.ProducerState
}

// OpenTransactions lists the transactions that are open in the partitions that brokers of this
// process lead, and in which nothing was written for more than the given time. They are sorted by
// partition and producer id; see partition.HangingTransactions. It does not block.
func (c *Cluster) OpenTransactions(longer time.Duration) (open []OpenTransaction) {
	for _, r := range c.allReplicas() {
		p := r.part.Load()
		if p == nil {
			continue
		}
		if leader, _, err := c.LeaderOfTopic(r.tp, r.id); err != nil || leader != r.node.id {
			continue
		}
		for _, s := range p.HangingTransactions(longer) {
			open = append(open, OpenTransaction{r.tp, r.node.id, s})
		}
	}
	slices.SortFunc(open, func(a, b OpenTransaction) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Partition, b.Partition.Partition), cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return open
}
