package partition

import (
	"fmt"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// An owed entry of the transaction index could not be written. Read-committed readers could take
// the transaction's records for committed: they get err until the index is made whole from the
// markers, when the partition is opened again, or cut.
type owed struct {
	err    error
	stable int64 // where transactions began whose entries may be missing
}

// recordAborted puts an aborted transaction into the transaction index of its marker's segment,
// before anyone can read the marker. Behind an entry that is owed it writes none: they come in the
// order of their markers.
func (p *Partition) recordAborted(t endedTxn) {
	p.anyAborted.Store(true)
	if p.owed.Load() != nil {
		return
	}
	if err := p.writeAborted(t); err != nil {
		p.owed.Store(&owed{err, min(t.first, t.lastStable)})
	}
}

func (p *Partition) writeAborted(t endedTxn) error {
	err := p.log.AppendAborted(segment.AbortedTxn{ProducerID: t.producerID, FirstOffset: t.first, LastOffset: t.last, LastStableOffset: t.lastStable})
	if err != nil {
		return fmt.Errorf("record aborted transaction of producer %d at [%d,%d]: %w", t.producerID, t.first, t.last, err)
	}
	return nil
}

// aborted returns the aborted transactions that overlap the batches in p, from offset on.
func (p *Partition) aborted(offset int64, batches []byte) ([]AbortedTxn, error) {
	if o := p.owed.Load(); o != nil {
		return nil, o.err
	}
	upTo := offset
	for len(batches) > 0 {
		b, err := record.ParseHeader(batches)
		if err != nil {
			return nil, err
		}
		upTo = b.NextOffset()
		batches = batches[b.Size():]
	}
	txns, err := p.log.AbortedTxns(offset, upTo)
	if err != nil || len(txns) == 0 {
		return nil, err
	}
	out := make([]AbortedTxn, len(txns))
	for i, t := range txns {
		out[i] = AbortedTxn{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset}
	}
	return out, nil
}
