package segment

import "sync/atomic"

// positionCache remembers where the last reads ended: the next one by the same reader begins there
// and needs no index. Readers at different offsets use different slots, by chance.
type positionCache [2]atomic.Uint64 // relative offset + 1 << 32 | file position; 0: none

func (c *positionCache) slot(rel int64) *atomic.Uint64 {
	return &c[uint64(rel)*0x9e3779b97f4a7c15>>63]
}

// get returns the position of the first batch at or behind the relative offset rel, the one before
// it ending right before rel.
func (c *positionCache) get(rel int64) (pos int64, ok bool) {
	v := c.slot(rel).Load()
	if v>>32 != uint64(rel)+1 {
		return 0, false
	}
	return int64(v & (1<<32 - 1)), true
}

func (c *positionCache) set(rel, pos int64) {
	if rel < maxRelativeOffset {
		c.slot(rel).Store(uint64(rel+1)<<32 | uint64(pos))
	}
}

func (c *positionCache) clear() {
	for i := range c {
		c[i].Store(0)
	}
}
