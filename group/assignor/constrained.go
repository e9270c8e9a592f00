package assignor

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/record"
)

// constrained is the sticky algorithm for members that all subscribe to the same topics (Kafka:
// AbstractStickyAssignor's ConstrainedAssignmentBuilder). Each member keeps its partitions up to
// its quota. The other partitions are assigned in turn.
type constrained struct {
	*stickyInput
	owned      [][]record.TopicPartition      // by member: valid claims
	doubtful   map[record.TopicPartition]bool // claimed by two members in the same generation
	minQuota   int
	maxQuota   int
	overMin    int // number of members that may get more than minQuota
	hasOverMin int // number of members that have more
	shares     [][]record.TopicPartition
	assigned   map[record.TopicPartition]bool
	revoked    map[record.TopicPartition]bool
	underMin   []int // members with less than minQuota, by id
	exactlyMin []int // members with minQuota that may get one more
}

func newConstrained(s *stickyInput) *constrained {
	c := &constrained{
		stickyInput: s,
		doubtful:    make(map[record.TopicPartition]bool),
		shares:      make([][]record.TopicPartition, len(s.members)),
		assigned:    make(map[record.TopicPartition]bool),
		revoked:     make(map[record.TopicPartition]bool),
	}
	c.resolveClaims()
	return c
}

// resolveClaims decides between members that claim the same partition: the higher generation wins.
// Claims of equal generation are all dropped.
func (c *constrained) resolveClaims() {
	owner := make(map[record.TopicPartition]int)
	for i, claims := range c.claimed {
		for _, tp := range claims {
			if !c.exists(tp) {
				continue
			}
			other, claimed := owner[tp]
			switch {
			case !claimed || c.generation[i] > c.generation[other]:
				owner[tp] = i
				delete(c.doubtful, tp) // the newer claim wins over the older conflict
			case other != i && c.generation[i] == c.generation[other]:
				c.doubtful[tp] = true
			}
		}
	}
	c.owned = make([][]record.TopicPartition, len(c.members))
	for tp, i := range owner {
		if _, subscribed := c.topicIndex[tp.Topic]; subscribed && !c.doubtful[tp] {
			c.owned[i] = append(c.owned[i], tp)
		}
	}
	for _, tps := range c.owned {
		slices.SortFunc(tps, func(a, b record.TopicPartition) int {
			return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Topic, b.Topic))
		})
	}
}

func (c *constrained) assign() (map[string][]record.TopicPartition, map[record.TopicPartition]string) {
	all := c.all()
	c.minQuota, c.overMin = len(all)/len(c.members), len(all)%len(c.members)
	c.maxQuota = c.minQuota
	if c.overMin > 0 {
		c.maxQuota++
	}
	for i := range c.members {
		c.keepOwned(i)
	}
	if c.hasOverMin == c.overMin {
		c.exactlyMin = nil
	}
	moving := make(map[record.TopicPartition]string)
	c.deal(all, func(tp record.TopicPartition, to int) {
		if c.revoked[tp] || c.doubtful[tp] {
			moving[tp] = c.members[to].ID
		}
	})
	out := make(map[string][]record.TopicPartition, len(c.members))
	for i, m := range c.members {
		out[m.ID] = c.shares[i]
	}
	return out, moving
}

// keepOwned lets member i keep maxQuota of its partitions while fewer than overMin members have
// that many, otherwise minQuota.
func (c *constrained) keepOwned(i int) {
	keep := c.minQuota
	switch owned := len(c.owned[i]); {
	case owned < c.minQuota:
		keep = owned
		c.underMin = append(c.underMin, i)
	case owned >= c.maxQuota && c.hasOverMin < c.overMin:
		keep = c.maxQuota
		c.hasOverMin++
	case c.hasOverMin < c.overMin:
		c.exactlyMin = append(c.exactlyMin, i)
	}
	c.shares[i] = slices.Clip(c.owned[i][:keep])
	for _, tp := range c.owned[i][:keep] {
		c.assigned[tp] = true
	}
	for _, tp := range c.owned[i][keep:] {
		c.revoked[tp] = true
	}
}

// deal assigns the remaining partitions in turn: first until each member has minQuota, then one
// more each to members with minQuota. It calls given for each partition.
func (c *constrained) deal(all []record.TopicPartition, given func(record.TopicPartition, int)) {
	turn := 0
	for _, tp := range all {
		if c.assigned[tp] {
			continue
		}
		list := &c.underMin
		if len(*list) == 0 {
			list = &c.exactlyMin
		}
		if turn >= len(*list) {
			turn = 0
		}
		i := (*list)[turn]
		c.shares[i] = append(c.shares[i], tp)
		given(tp, i)
		if list == &c.exactlyMin {
			*list = slices.Delete(*list, turn, turn+1) // has maxQuota now
			continue
		}
		if len(c.shares[i]) == c.minQuota {
			*list = slices.Delete(*list, turn, turn+1)
			c.exactlyMin = append(c.exactlyMin, i)
			if len(*list) == 0 {
				turn = 0
			}
			continue
		}
		turn++
	}
}
