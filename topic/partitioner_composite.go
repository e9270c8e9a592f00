package topic

import "github.com/stratalog/strata/record"

// Composite chooses the partition in two steps: first chooses a block of spread adjacent
// partitions, second a partition in that block. For example, List by tenant and then Hash within
// the tenant's block. The last block is smaller if spread does not divide the number of partitions;
// a spread below 1 counts as 1. If first or second rejects the record, so does Composite.
// RoundRobin, Default and Sticky keep a separate position for each block. The result is a
// BatchAware if first or second is.
func Composite(first Partitioner, spread int, second Partitioner) Partitioner {
	c := composite{first: first, second: second, spread: max(spread, 1)}
	_, firstAware := first.(BatchAware)
	_, secondAware := second.(BatchAware)
	if firstAware || secondAware {
		return compositeAware{c}
	}
	return c
}

type composite struct {
	first, second Partitioner
	spread        int
}

func (c composite) Partition(r record.Record, n int) int {
	blocks := (n + c.spread - 1) / c.spread
	b := c.first.Partition(r, blocks)
	if b < 0 || b >= blocks {
		return Refuse
	}
	size := c.size(b, n)
	p := partitionIn(c.second, &r, b, size)
	if p < 0 || p >= size {
		return Refuse
	}
	return b*c.spread + p
}

func (c composite) size(block, n int) int { return min(c.spread, n-block*c.spread) }

// compositeAware reports an append to each step in that step's own terms: to the first as a block,
// to the second as a place in the block.
type compositeAware struct{ composite }

func (c compositeAware) Appended(a Appended) {
	n, block := a.Partitions, int(a.Partition)/c.spread
	if a.Partition < 0 || int(a.Partition) >= n {
		return
	}
	if first, ok := c.first.(BatchAware); ok {
		up := a
		up.Partition, up.Partitions = int32(block), (n+c.spread-1)/c.spread
		first.Appended(up)
	}
	if second, ok := c.second.(BatchAware); ok {
		down := a
		down.Partition, down.Partitions = a.Partition-int32(block*c.spread), c.size(block, n)
		if s, ok := second.(interface{ appendedIn(Appended, int) }); ok {
			s.appendedIn(down, block)
		} else {
			second.Appended(down)
		}
	}
}

// partitionIn returns p's choice of a place in a block. Partitioners that choose in turn have one
// turn per block.
func partitionIn(p Partitioner, r *record.Record, block, n int) int {
	if b, ok := p.(inTurn); ok {
		return b.partitionIn(r.Topic, r.Key, block, n)
	}
	return p.Partition(*r, n)
}
