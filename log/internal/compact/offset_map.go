package compact

import "hash/maphash"

// An offsetMap holds the last offset of each key, by a 128-bit hash of the key: 24 bytes per key
// of any length, as Kafka's SkimpyOffsetMap. Each map has its own hash seeds, so that clients
// cannot choose keys that collide. Not safe for concurrent use.
type offsetMap struct {
	slots  []mapSlot // a power of two; at most three quarters are in use
	len    int
	max    int // keys
	seeds  [2]maphash.Seed
	latest int64 // offsets up to this one are in the map; -1 means none
}

// A mapSlot is free if next is 0.
type mapSlot struct {
	hash [2]uint64
	next int64 // offset + 1
}

const (
	mapSlotBytes = 24
	minMapSlots  = 1 << 10
)

// newOffsetMap returns a map that takes at most maxBytes, but at least 24 KiB.
func newOffsetMap(maxBytes int64) *offsetMap {
	slots := minMapSlots
	for int64(slots)*2*mapSlotBytes <= maxBytes {
		slots *= 2
	}
	return &offsetMap{
		slots:  make([]mapSlot, minMapSlots),
		max:    slots / 4 * 3,
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		latest: -1,
	}
}

// full reports whether there is no room for another key.
func (m *offsetMap) full() bool { return m.len >= m.max }

func (m *offsetMap) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
}

// slot returns the slot of a hash, or the free one where it belongs.
func (m *offsetMap) slot(h [2]uint64) *mapSlot {
	mask := uint64(len(m.slots) - 1)
	for i := h[0] & mask; ; i = (i + 1) & mask {
		if s := &m.slots[i]; s.next == 0 || s.hash == h {
			return s
		}
	}
}

// put stores offset as the last one of key. It must not be called when the map is full.
func (m *offsetMap) put(key []byte, offset int64) {
	h := m.hash(key)
	s := m.slot(h)
	if s.next == 0 {
		if m.len++; m.len > len(m.slots)/4*3 {
			m.grow()
			s = m.slot(h)
		}
	}
	*s = mapSlot{h, max(s.next, offset+1)}
}

// get returns the last offset of key, -1 if it is not in the map.
func (m *offsetMap) get(key []byte) int64 { return m.slot(m.hash(key)).next - 1 }

func (m *offsetMap) grow() {
	old := m.slots
	m.slots = make([]mapSlot, 2*len(old))
	for _, s := range old {
		if s.next != 0 {
			*m.slot(s.hash) = s
		}
	}
}
