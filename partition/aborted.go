package partition

import (
	"fmt"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// recordAborted puts an aborted transaction into the transaction index of its marker's segment,
// before anyone can read the marker. If that fails, read-committed readers could take its records
// for committed: they get the error until the partition is reopened, which rebuilds the index from
// the markers.
func (p *Partition) recordAborted(t endedTxn) {
	p.anyAborted.Store(true)
	err := p.log.AppendAborted(segment.AbortedTxn{ProducerID: t.producerID, FirstOffset: t.first, LastOffset: t.last, LastStableOffset: t.lastStable})
	if err != nil {
		err = fmt.Errorf("record aborted transaction of producer %d at [%d,%d]: %w", t.producerID, t.first, t.last, err)
		p.abortedErr.CompareAndSwap(nil, &err)
	}
}

// aborted returns the aborted transactions that overlap the batches in p, from offset on.
func (p *Partition) aborted(offset int64, batches []byte) ([]AbortedTxn, error) {
	if err := p.abortedErr.Load(); err != nil {
		return nil, *err
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
