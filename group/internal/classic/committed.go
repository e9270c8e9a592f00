package classic

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// Limits bound a group of any kind.
type Limits struct {
	OffsetsRetention  time.Duration // 0: offsets never expire
	OffsetMetadataMax int           // UTF-16 units
	BatchBytes        int           // limit of one step's batch; 0: 1 MiB
}

// Room returns half of BatchBytes: the limit for records that may be spread over several batches.
func (l Limits) Room() int { return cmp.Or(l.BatchBytes, 1<<20) / 2 }

// AtOnce returns how many of n members, at least one, a step may remove: three tombstones of each
// have to fit in a batch. Without this bound the removal of many silent members would be too large
// for a batch, and would never succeed.
func (l Limits) AtOnce(group string, n int, id func(i int) string) int {
	room := l.Room()
	for i := range n {
		if room -= TombstoneBytes(group, id(i)); room < 0 {
			return max(i, 1)
		}
	}
	return n
}

// TombstoneBytes returns an upper estimate of a member's three tombstones.
func TombstoneBytes(group, member string) int { return 3 * (len(group) + len(member) + 64) }

// Committed holds the committed offsets of a group of any kind, and the offsets pending in
// transactions. They stay when the group's kind changes.
type Committed struct {
	id      string
	offsets map[record.TopicPartition]offsets.OffsetValue

	// Pending offsets of open transactions, by producer id. No inner map is empty. ordered is the
	// order of the last pending offset.
	txns    map[int64]map[record.TopicPartition]pendingOffset
	ordered uint64

	history history.History

	charge machine.Charge
	kept   int // bytes of all offsets, see bytesOf
}

// NewCommitted returns the offsets of a group that has none.
func NewCommitted(id string) *Committed {
	return &Committed{id: id, offsets: make(map[record.TopicPartition]offsets.OffsetValue), charge: machine.Uncharged{}}
}

// ID returns the group's id.
func (g *Committed) ID() string { return g.id }

// History returns the history of the group, whose type may change.
func (g *Committed) History() *history.History { return &g.history }

// Offsets returns the committed offsets, which must not be written to.
func (g *Committed) Offsets() map[record.TopicPartition]offsets.OffsetValue { return g.offsets }

// None reports whether there is neither a committed nor a pending offset.
func (g *Committed) None() bool { return len(g.offsets) == 0 && len(g.txns) == 0 }

// Apply applies the record of an offset.
func (g *Committed) Apply(r offsets.Record) {
	tp := topicPartition(r.Key)
	if r.Offset != nil {
		g.set(tp, *r.Offset)
		g.overwrite(tp, g.ordered)
		return
	}
	if v, ok := g.offsets[tp]; ok {
		delete(g.offsets, tp)
		g.keep(-bytesOf(tp, v.Metadata))
	}
	g.dropPending(tp)
}

func topicPartition(k offsets.Key) record.TopicPartition {
	return record.TopicPartition{Topic: k.Topic, Partition: k.Partition}
}

// key returns the key of an offset's record.
func (g *Committed) key(tp record.TopicPartition) offsets.Key {
	return offsets.Key{Type: offsets.KeyOffset, Group: g.id, Topic: tp.Topic, Partition: tp.Partition}
}

// commit appends the records of the offsets that can be stored to dst. errs has an entry for each
// offset, nil if it can be stored. in is the producer of the transaction; nil if there is none.
func (g *Committed) commit(dst []offsets.Record, r *protocol.CommitRequest, topicIDs map[string][16]byte, metadataMax int, by machine.Bound, now time.Time, in *machine.Producer) (records []offsets.Record, errs map[record.TopicPartition]error) {
	errs = make(map[record.TopicPartition]error, len(r.Offsets))
	more := 0 // bytes by which the records make the group grow
	for _, tp := range sorted(r.Offsets) {
		c := r.Offsets[tp]
		errs[tp] = checkMetadata(c.Metadata, metadataMax)
		if errs[tp] != nil {
			continue
		}
		if more, errs[tp] = g.grow(more, by, r, tp, in); errs[tp] != nil {
			continue
		}
		v := &offsets.OffsetValue{Offset: c.Offset, LeaderEpoch: c.LeaderEpoch, Metadata: c.Metadata, CommitMs: now.UnixMilli(), ExpireMs: -1, TopicID: topicIDs[tp.Topic]}
		if r.Retention > 0 {
			v.ExpireMs = now.Add(r.Retention).UnixMilli()
		}
		dst = append(dst, offsets.Record{Key: g.key(tp), Offset: v})
	}
	return dst, errs
}

// checkMetadata checks the length of a committed offset's metadata against limit, in UTF-16 units
// as Java counts them.
func checkMetadata(s string, limit int) error {
	if len(s) <= limit {
		return nil
	}
	n := 0
	for _, r := range s {
		n++
		if utf8.RuneLen(r) == 4 {
			n++ // a surrogate pair
		}
	}
	if n > limit {
		return &protocol.MetadataTooLargeError{Length: n, Max: limit}
	}
	return nil
}

// remove appends the tombstones of the offsets that which selects, including pending ones, in
// order.
func (g *Committed) remove(dst []offsets.Record, which func(record.TopicPartition) bool) []offsets.Record {
	for _, tp := range g.named() {
		if which(tp) {
			dst = append(dst, offsets.Record{Key: g.key(tp)})
		}
	}
	return dst
}
