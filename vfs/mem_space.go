package vfs

import (
	"errors"
	"math"
)

// Space implements SpaceFS, for a file system with a capacity.
func (t *memTree) Space(string) (total, free int64, err error) {
	total = t.capacity.Load()
	if total <= 0 {
		return 0, 0, errors.ErrUnsupported
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return total, max(total-usedBy(t.root, nil), 0), nil
}

// roomLocked returns the size up to which n may grow, at least its own, for a caller that needs
// size. No other file grows until unlock is called. The caller holds mu, and no file's lock.
func (t *memTree) roomLocked(n *node, size int64) (fits int64, unlock func()) {
	total := t.capacity.Load()
	if total <= 0 {
		return math.MaxInt64, func() {}
	}
	t.growing.Lock()
	if size <= inBlocks(n.info("").size) { // nothing is taken
		return math.MaxInt64, t.growing.Unlock
	}
	return max(total-usedBy(t.root, n), inBlocks(n.info("").size), 0) / pageSize * pageSize, t.growing.Unlock
}

// usedBy returns the bytes of the files below n, without the file except.
func usedBy(n, except *node) (bytes int64) {
	switch {
	case n == except:
		return 0
	case n.dir == nil:
		return inBlocks(n.info("").size)
	}
	for _, child := range n.dir.live {
		bytes += usedBy(child, except)
	}
	return bytes
}

// inBlocks rounds a size up to whole blocks.
func inBlocks(size int64) int64 { return (size + pageSize - 1) / pageSize * pageSize }
