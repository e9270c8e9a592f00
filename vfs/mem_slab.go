package vfs

import "github.com/stratalog/strata/internal/uncleared"

// Slabs have a quarter of the memory that their file has, at most maxSlab.
const (
	slabShare = 4
	maxSlab   = 1 << 20
)

// slabs are where the memory for the pages of a file comes from: large pieces, because the garbage
// collector looks at each allocation. Copies of a file share its pages, but not the rest of a slab.
// The zero slabs are ready for use.
type slabs struct {
	rest      []byte // of the last slab, not handed out yet. It holds arbitrary bytes
	in        *chunk // that rest is in, and the last pages handed out; nil: they are in the heap
	allocated int    // bytes of all slabs
}

// take returns memory for n bytes, whole pages, that holds anything. It is in the chunk in.
func (s *slabs) take(n int) []byte {
	if len(s.rest) < n {
		size := max(n, min(s.allocated/slabShare/pageSize*pageSize, maxSlab))
		s.rest, s.in = nil, nil
		if s.allocated >= chunksFrom {
			s.in = chunks.take()
		}
		if s.in != nil {
			s.rest = s.in.mem
		} else {
			s.rest = uncleared.Bytes(size)[:size:size]
		}
		s.allocated += len(s.rest)
	}
	m := s.rest[:n:n]
	s.rest = s.rest[n:]
	return m
}
