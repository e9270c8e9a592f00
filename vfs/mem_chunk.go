package vfs

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

const (
	chunkBytes = 2 << 20 // the unit that the system can map at once
	// Files have chunks from this size on: smaller ones would not fill them.
	chunksFrom = 2 * chunkBytes
	// Free chunks are kept for later writes: a quarter as many as are in use, and at least some.
	keptShare  = 4
	keptChunks = 4
	// No collection is started for fewer chunks than these, taken since the last one.
	fewChunks = 64
)

// A chunk is memory for pages outside of the collector's heap. In the heap it would make the
// collector run rarely, and the heap of the whole process would grow into memory that is always
// touched for the first time. A chunk is free again when the collector finds no page that refers to
// it.
type chunk struct {
	mem []byte // not cleared
}

// chunks is all of the process: pages are shared by copies of file systems.
var chunks chunkPool

// chunkPool hands out chunks and takes back unreferenced ones.
//
// The collector does not see chunks, so their number would not make it run. The pool starts it when
// as many were taken since the last collection as were in use then, heap included: as often as it
// would run by default if they were in the heap.
type chunkPool struct {
	mu sync.Mutex // guards the fields below

	free  [][]byte
	inUse int

	taken  int    // since the last look at cycles, or since a collection was started
	low    int    // least inUse since the last look
	limit  int    // of taken
	cycles uint64 // collections of the process at the last look
}

// take returns a chunk with arbitrary content, or nil if the system has no memory for it.
func (p *chunkPool) take() *chunk {
	p.mu.Lock()
	var mem []byte
	if n := len(p.free); n > 0 {
		mem, p.free[n-1] = p.free[n-1], nil
		p.free = p.free[:n-1]
	}
	p.inUse++
	p.taken++
	collect := p.taken > max(p.limit, fewChunks) && p.dueLocked()
	p.mu.Unlock()
	if collect {
		go runtime.GC() // ends by itself; the writer does not wait for it
	}
	if mem == nil {
		if mem = mapChunk(); mem == nil {
			p.mu.Lock()
			p.inUse--
			p.mu.Unlock()
			return nil
		}
	}
	c := &chunk{mem: mem}
	runtime.AddCleanup(c, p.put, mem)
	return c
}

// dueLocked reports whether a collection is to be started: there was none since the last look.
func (p *chunkPool) dueLocked() bool {
	p.taken = 0
	found := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(found)
	cycles, heap := found[0].Value.Uint64(), found[1].Value.Uint64()
	due := cycles == p.cycles
	p.limit, p.cycles = p.low+int(heap/chunkBytes), cycles
	if !due {
		p.low = p.inUse
	}
	return due
}

// put takes back the memory of a chunk.
func (p *chunkPool) put(mem []byte) {
	p.mu.Lock()
	p.inUse--
	p.low = min(p.low, p.inUse)
	p.free = append(p.free, mem)
	kept := max(keptChunks, p.inUse/keptShare)
	var surplus [][]byte
	if len(p.free) > kept {
		surplus = append(surplus, p.free[kept:]...)
		clear(p.free[kept:])
		p.free = p.free[:kept]
	}
	p.mu.Unlock()
	for _, mem := range surplus {
		unmapChunk(mem)
	}
}
