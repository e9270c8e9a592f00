package partition

import "time"

// HangingTransactions lists the producers that have an open transaction in this partition and have
// written nothing in it for more than the given time, by producer id. With the largest timeout that
// a transaction may have (transaction.max.timeout.ms), it lists transactions that no coordinator
// will end. The caller verifies that with the coordinator, and ends them by EndTransaction in the
// producer's epoch. It does not block.
//
// The time is measured by this replica's clock, not by the records' timestamps, and starts at the
// earliest when the replica was opened. Kafka's tool uses the timestamps: there, copied records
// with old timestamps seem to hang, and records from the future never do.
func (p *Partition) HangingTransactions(longer time.Duration) []ProducerState {
	now := time.Now().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.hanging(now - longer.Milliseconds())
}

// hanging lists the producers that have an open transaction and have not written since.
func (s *producers) hanging(since int64) (out []ProducerState) {
	if len(s.txns.open) == 0 {
		return nil
	}
	for _, p := range s.states() {
		if p.TxnFirstOffset >= 0 && s.m[p.ProducerID].seen < since {
			out = append(out, p)
		}
	}
	return out
}
