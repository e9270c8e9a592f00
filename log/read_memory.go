package log

import "github.com/stratalog/strata/internal/uncleared"

// readBytes is the step of iterators.
const readBytes = 256 << 10

// maxReadBytes is where the step of iterators stops growing with the size of batches.
const maxReadBytes = 8 << 20

// maxChunkBytes is the most memory that a kept record of Records or Follow keeps, unless its batch
// is larger; before manyBytes were read, it is less.
const (
	maxChunkBytes   = 3 << 20
	earlyChunkBytes = 2 << 20
)

// manyBytes is the number of bytes after which a reader is expected to read much more.
const manyBytes = 32 << 20

// readMemory gives out the memory of records that their reader may keep. Once it is clear that
// there are many to come, one allocation serves several reads: the more memory is in use, the more
// rarely the collector works, which otherwise takes as long as the reading.
type readMemory struct {
	free  []byte // empty; its capacity is the rest of the last chunk
	chunk int    // bytes of the last chunk
	size  int    // of the last read
	batch int    // bytes of the last batch seen
	long  bool   // the last read returned about its maximum
	total int64  // bytes read so far
}

// next returns memory to append to, and how much to read.
func (m *readMemory) next() (dst []byte, size int) {
	m.size = readBytes
	if m.batch > 0 { // whole batches, where the next ones are about as large
		m.size = min(max(readBytes/m.batch, 1)*(m.batch+m.batch/64), maxReadBytes)
	}
	if !m.long {
		return nil, m.size
	}
	if cap(m.free) < m.size {
		most := maxChunkBytes
		if m.total < manyBytes {
			most = earlyChunkBytes
		}
		m.chunk = max(min(2*max(m.chunk, readBytes), most), m.size)
		m.free = uncleared.Bytes(m.chunk)
	}
	return m.free, m.size
}

// took records the length of the read bytes, and returns them without the memory behind them, which
// the next read gets.
func (m *readMemory) took(p []byte) []byte {
	m.long = len(p) > m.size/2
	m.total += int64(len(p))
	if cap(p) == cap(m.free) { // it had room
		m.free = p[len(p):]
	}
	return p[:len(p):len(p)]
}
