package segment

import "fmt"

// How far zeros are written ahead: as far as the segment is long, within these bounds, since there
// may be many short ones.
const (
	minZeros     = 16 << 10
	maxZeros     = 256 << 10
	minZeroWrite = 2 << 10  // smaller writes seldom reach a new block
	maxZeroWrite = 32 << 10 // larger ones gain less than the zeros cost
)

var zeros [maxZeros]byte

// ZeroAhead makes preallocated space cheap to sync, for n bytes that are about to be appended: it
// writes zeros behind them, if they go beyond what was zeroed before. A file system that reserves
// space remembers what was never written to, and has to change that with every write that reaches a
// new block: the sync after it waits for a commit of its journal, too. After this it does so once
// for many appends, at the price of writing their bytes twice, which is no more than such a commit
// writes. Small and large appends are left alone. For the writer.
func (s *Segment) ZeroAhead(n int) error {
	size := s.Size()
	next := size + int64(n)
	s.mu.Lock()
	zeroed, alloc := s.zeroed, s.alloc
	s.mu.Unlock()
	to := min(next+min(max(size, minZeros), maxZeros), alloc)
	if next <= zeroed || next >= to || n < minZeroWrite || n > maxZeroWrite {
		return nil
	}
	f, err := s.writable()
	if err != nil {
		return err
	}
	defer s.wrote(f)
	if _, err := f.file.WriteAt(zeros[:to-next], next); err != nil {
		// zeros are there in any case
		return fmt.Errorf("write zeros ahead in %s: %w", s.Path(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zeroed = to
	return nil
}
