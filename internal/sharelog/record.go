package sharelog

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/wire"
)

// A Batch is a range of offsets in one state of delivery.
type Batch struct {
	First, Last int64 // both inclusive
	State       int8  // 0 available, 2 acknowledged, 4 archived; Kafka: RecordState
	Count       int16 // deliveries so far
}

// A Value is the stored state of a share-partition. A snapshot is all of it; an update replaces the
// start offset, the leader epoch and the states of the offsets in its batches.
type Value struct {
	SnapshotEpoch int32 // number of the snapshot, or of the update's snapshot
	StateEpoch    int32 // of a snapshot only: increases at each reset of the start offset
	LeaderEpoch   int32 // of the partition's leader that wrote it; in an update -1: as before
	Start         int64 // start offset; -1: not known yet, in an update: as before
	Complete      int32 // offsets from Start on whose delivery is complete; -1: not known (KIP-1226)
	CreateMs      int64 // of a snapshot only: time of the first snapshot
	WriteMs       int64 // of a snapshot only: time of this snapshot
	Batches       []Batch
}

// A Record is one record of the topic. Without a Value it is a tombstone: the share-partition is
// deleted.
type Record struct {
	Key    Key
	Update bool
	Value  *Value
}

// noComplete is the default of the tagged field.
const (
	noComplete  = -1
	tagComplete = 0
)

// AppendTo appends the value of a snapshot, or of an update.
func (v *Value) AppendTo(dst []byte, update bool) []byte {
	dst = wire.AppendInt32(wire.AppendInt16(dst, 0), v.SnapshotEpoch)
	if !update {
		dst = wire.AppendInt32(dst, v.StateEpoch)
	}
	dst = wire.AppendInt64(wire.AppendInt32(dst, v.LeaderEpoch), v.Start)
	if !update {
		dst = wire.AppendInt64(wire.AppendInt64(dst, v.CreateMs), v.WriteMs)
	}
	dst = binary.AppendUvarint(dst, uint64(len(v.Batches)+1))
	for _, b := range v.Batches {
		dst = wire.AppendInt64(wire.AppendInt64(dst, b.First), b.Last)
		dst = append(wire.AppendInt16(append(dst, byte(b.State)), b.Count), 0)
	}
	if v.Complete == noComplete {
		return append(dst, 0)
	}
	return wire.AppendInt32(append(dst, 1, tagComplete, 4), v.Complete)
}

// batchSize is the encoded size of a Batch in bytes, with an empty list of tags.
const batchSize = 20

// ParseRecord decodes a record of the topic. known is false for a key of another type, which is not
// an error: a reader skips it. The result does not alias key or value. Batches are by offset and do
// not overlap. Errors match ErrMalformed.
func ParseRecord(key, value []byte) (r Record, known bool, err error) {
	r.Key, r.Update, known, err = parseKey(key)
	if err != nil || !known || value == nil {
		return r, known, err
	}
	v, err := parseValue(value, r.Update)
	if err != nil {
		return Record{}, false, err
	}
	r.Value = &v
	return r, true, nil
}

func parseValue(p []byte, update bool) (v Value, err error) {
	r := wire.Reader{P: p}
	if version := r.Int16(); r.Err == nil && version != 0 {
		return Value{}, fmt.Errorf("%w: value version %d", ErrMalformed, version)
	}
	v.SnapshotEpoch, v.Complete = r.Int32(), noComplete
	if !update {
		v.StateEpoch = r.Int32()
	}
	v.LeaderEpoch, v.Start = r.Int32(), r.Int64()
	if !update {
		v.CreateMs, v.WriteMs = r.Int64(), r.Int64()
	}
	n := r.CompactCount(batchSize)
	if n > 0 {
		v.Batches = make([]Batch, n)
	}
	last := int64(-1)
	for i := range v.Batches {
		b := &v.Batches[i]
		*b = Batch{First: r.Int64(), Last: r.Int64(), State: r.Int8(), Count: r.Int16()}
		r.Tags(nil)
		if r.Err == nil && (b.First <= last || b.Last < b.First || b.Count < 0) {
			r.Fail("batch")
		}
		last = b.Last
	}
	r.Tags(func(tag uint64, f *wire.Reader) {
		if tag == tagComplete {
			v.Complete = f.Int32()
		}
	})
	return v, r.Err
}

// Apply returns v after an update: the update prevails, batches below the start are dropped, and
// equal neighbours become one batch. v is not changed.
func (v *Value) Apply(u *Value) *Value {
	n := *v
	if u.Start >= 0 {
		n.Start = u.Start
	}
	if u.LeaderEpoch >= 0 {
		n.LeaderEpoch = u.LeaderEpoch
	}
	n.Complete = u.Complete
	n.Batches = combine(v.Batches, u.Batches, n.Start)
	return &n
}

// combine returns the batches in old with the batches in update over them, from start on.
func combine(old, update []Batch, start int64) (all []Batch) {
	add := func(b Batch) {
		if b.First = max(b.First, start); b.First > b.Last {
			return
		}
		if k := len(all) - 1; k >= 0 && all[k].Last == b.First-1 && all[k].State == b.State && all[k].Count == b.Count {
			all[k].Last = b.Last
			return
		}
		all = append(all, b)
	}
	old = slices.Clone(old)
	for _, u := range update {
		for len(old) > 0 && old[0].First < u.First {
			before := old[0]
			before.Last = min(before.Last, u.First-1)
			add(before)
			if old[0].First = u.First; old[0].First > old[0].Last {
				old = old[1:]
			}
		}
		add(u)
		for len(old) > 0 && old[0].Last <= u.Last {
			old = old[1:]
		}
		if len(old) > 0 {
			old[0].First = max(old[0].First, u.Last+1)
		}
	}
	for _, b := range old {
		add(b)
	}
	return all
}
