package classic

import (
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

const (
	// offsetBytes is the memory of an offset beside the name of its topic and its metadata.
	offsetBytes = 128
	// leastOffsetBytes is the least memory that is counted for an offset. It covers the metadata
	// of ordinary clients, whose length varies.
	leastOffsetBytes = 192
	// groupOffsetsBytes is the memory of a group that has offsets, beside its name.
	groupOffsetsBytes = 2 << 10
)

// bytesOf estimates the memory of an offset, in bytes.
func bytesOf(tp record.TopicPartition, metadata string) int {
	return max(leastOffsetBytes, offsetBytes+len(tp.Topic)+len(metadata))
}

// ChargeTo counts the memory of all offsets in c. It must be called before the first offset.
func (g *Committed) ChargeTo(c machine.Charge) { g.charge = c }

// set puts an offset in effect.
func (g *Committed) set(tp record.TopicPartition, v offsets.OffsetValue) {
	n := bytesOf(tp, v.Metadata)
	if old, ok := g.offsets[tp]; ok {
		n -= bytesOf(tp, old.Metadata)
	}
	g.offsets[tp] = v
	g.keep(n)
}

// keep adds n to the memory of the offsets, in bytes. n may be negative.
func (g *Committed) keep(n int) {
	before := g.bytes(0)
	g.kept += n
	g.charge.Add(g.bytes(0) - before)
}

// bytes returns the memory of the group's offsets if they grew by more bytes.
func (g *Committed) bytes(more int) int {
	if g.kept+more == 0 {
		return 0
	}
	return g.kept + more + groupOffsetsBytes + len(g.id)
}

// grow returns more, the bytes that earlier offsets of r need, plus the bytes for the offset of
// tp. It returns ErrOffsetsFull if the sum exceeds the bound. An offset that replaces one of the
// same size needs no memory. This holds in a transaction too, unless another open transaction has
// an offset of the partition.
func (g *Committed) grow(more int, by machine.Bound, r *protocol.CommitRequest, tp record.TopicPartition, in *machine.Producer) (int, error) {
	if by.Bytes == 0 {
		return more, nil
	}
	n := bytesOf(tp, r.Offsets[tp].Metadata)
	if v, ok := g.offsets[tp]; ok && (in == nil || !g.pendingOfOther(tp, in.ID)) {
		n -= bytesOf(tp, v.Metadata)
	} else if in != nil {
		if p, ok := g.txns[in.ID][tp]; ok {
			n -= bytesOf(tp, p.value.Metadata)
		}
	}
	if n <= 0 {
		return more, nil
	}
	if !g.charge.Fits(by, g.bytes(more+n)-g.bytes(0)) {
		return more, protocol.ErrOffsetsFull
	}
	return more + n, nil
}

// pendingOfOther reports whether the transaction of another producer has an offset of tp.
func (g *Committed) pendingOfOther(tp record.TopicPartition, producer int64) bool {
	for id, txn := range g.txns {
		if _, ok := txn[tp]; ok && id != producer {
			return true
		}
	}
	return false
}
