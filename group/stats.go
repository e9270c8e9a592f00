package group

import "github.com/stratalog/strata/group/internal/kinds"

// Stats are the counters of a Coordinator.
type Stats struct {
	Groups, Members int   // at present, in loaded partitions
	Rebalances      int64 // generations since the start
	Commits         int64 // offsets stored since the start
	Appends         int64 // batches written to the offsets topic
	AppendFailures  int64 // appends not known to be committed: the partition was loaded again
	Loads           int64 // partitions loaded
}

// Stats returns the current counters. It is safe for concurrent use.
func (c *Coordinator) Stats() Stats {
	r := c.runtime.Stats()
	s := Stats{Rebalances: c.rebalances.Load(), Commits: c.commits.Load(), Appends: r.Appends, AppendFailures: r.AppendFailures, Loads: r.Loads}
	for _, sh := range c.runtime.Known() {
		sh.EachLoaded(func(_ string, g *kinds.Group) {
			s.Groups++
			s.Members += g.Size()
		})
	}
	return s
}
