package segment

import "fmt"

// How far zeros are written ahead: as far as the segment is long, since there may be many short
// ones, but for zeroAppends appends at most, and within these bounds.
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

// ZeroAhead makes preallocated space cheap to sync, for n bytes that are about to be appended: it
// writes zeros behind them, if they go beyond what was zeroed before. A file system that reserves
// space remembers what was never written to, and has to change that with every write that reaches a
// new block: the sync after it waits for a commit of its journal, too. After this it does so once
// for many appends, at the price of writing their bytes twice. Small and large appends are left
// alone. For the writer.
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
