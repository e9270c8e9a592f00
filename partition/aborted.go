package partition

import (
	"encoding/binary"
	"log/slog"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// recordAborted has the log know an aborted transaction, before anyone can read its marker. It
// waits for no disk: p.mu may be held.
func (p *Partition) recordAborted(t endedTxn) {
	p.anyAborted.Store(true)
	if err := p.log.AppendAborted(t.entry()); err != nil { // only of a log that cannot be written to
		p.logger.Error("aborted transaction was not recorded", slog.String("topic", p.tp.Topic), slog.Int("partition", int(p.tp.Partition)),
			slog.Int64("producer", t.producerID), slog.Int64("offset", t.last), slog.Any("err", err))
	}
}

// entry returns the transaction index entry of an aborted transaction.
func (t *endedTxn) entry() segment.AbortedTxn {
	return segment.AbortedTxn{ProducerID: t.producerID, FirstOffset: t.first, LastOffset: t.last, LastStableOffset: t.lastStable}
}

// aborted returns the aborted transactions that overlap the batches in p, from offset on.
func (p *Partition) aborted(offset int64, batches []byte) ([]AbortedTxn, error) {
	upTo := offset
	if len(batches) > 0 {
		last, err := record.ParseHeader(lastBatch(batches))
		if err != nil {
			return nil, err
		}
		upTo = last.NextOffset()
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

// lastBatch returns the last of whole batches. It reads only the lengths of the others, since
// there may be thousands.
func lastBatch(batches []byte) []byte {
	for {
		n := int(binary.BigEndian.Uint32(batches[8:])) + record.LogOverhead
		if n >= len(batches) {
			return batches
		}
		batches = batches[n:]
	}
}
