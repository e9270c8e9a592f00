package segment

import "fmt"

// Bounds of the zeros that are written ahead. As many as the segment has bytes, since there may be
// many short segments, but at most for zeroAppends appends, and within these bounds.
const (
	zeroAppends  = 32
	minZeros     = 16 << 10
	mostZeros    = 4 << 20
	smallZeros   = 256 << 10 // for small appends, which are slower if it is more
	minZeroWrite = 2 << 10   // smaller writes seldom reach a new block
	maxZeroWrite = 128 << 10 // larger ones gain less than the zeros cost
)

var zeros [smallZeros]byte

// zeroAhead returns how many zeros are to be written behind an
// append of n bytes to a segment of size.
func zeroAhead(size int64, n int) int64 {
	return min(max(size, minZeros), max(smallZeros, min(int64(n)*zeroAppends, mostZeros)))
}

// ZeroAhead makes preallocated space cheap to sync before an append of n bytes: it writes zeros
// after them, if they go beyond the space zeroed before. A file system that reserves space marks
// blocks that were never written. Every write to such a block changes the mark, and then the next
// sync also waits for a commit of the file system's journal. With ZeroAhead this happens once for
// many appends, at the price of writing their bytes twice. It does nothing for small and large
// appends. Only the writer may call it.
func (s *Segment) ZeroAhead(n int) error {
	size := s.Size()
	next := size + int64(n)
	s.mu.Lock()
	zeroed, alloc := s.zeroed, s.alloc
	s.mu.Unlock()
	ahead := min(zeroAhead(size, n), alloc-next)
	if next <= zeroed || ahead < int64(n) || n < minZeroWrite || n > maxZeroWrite {
		return nil
	}
	f, err := s.writable()
	if err != nil {
		return err
	}
	defer s.wrote(f)
	if _, err := f.file.WritevAt(zerosOf(ahead), next); err != nil {
		// zeros are there in any case
		return fmt.Errorf("write zeros ahead in %s: %w", s.Path(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zeroed = next + ahead
	return nil
}

// zerosOf returns n zeros.
func zerosOf(n int64) (bufs [][]byte) {
	for ; n > 0; n -= smallZeros {
		bufs = append(bufs, zeros[:min(n, smallZeros)])
	}
	return bufs
}
