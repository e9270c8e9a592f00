package vfs

import "github.com/stratalog/strata/internal/uncleared"

// Slabs have a quarter of the memory that their file has, at most maxSlab.
const (
	slabShare = 4
	maxSlab   = 1 << 20
)

// slabs are where the memory for the pages of a file comes from: large pieces, because the garbage
// collector looks at each allocation. Copies of a file share its pages, but not what is left here.
// The zero slabs are ready for use.
type slabs struct {
	rest      []byte // of the last slab, given to nobody yet. It holds anything
	allocated int    // bytes of all slabs
}

// take returns memory for n bytes, whole pages, that holds anything.
func (s *slabs) take(n int) []byte {
	if len(s.rest) < n {
		size := max(n, min(s.allocated/slabShare/pageSize*pageSize, maxSlab))
		s.rest = uncleared.Bytes(size)[:size:size]
		s.allocated += size
	}
	m := s.rest[:n:n]
	s.rest = s.rest[n:]
	return m
}
