package partition

import "time"

// HangingTransactions lists the producers whose transaction is open here though nothing was written
// in it for longer than that, by producer id: with the largest timeout that a transaction may have
// (transaction.max.timeout.ms), what no coordinator is going to end. Who asks makes sure of that
// with the coordinator, and ends it by EndTransaction in the producer's epoch. It does not block.
//
// The time is this replica's own, not that of the records, and counts from the opening at the
// earliest. Kafka's tool goes by the records' time: records that are copied with their old
// timestamps look as if they hung, and those from the future never do.
func (p *Partition) HangingTransactions(longer time.Duration) []ProducerState {
	now := time.Now().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.hanging(now - longer.Milliseconds())
}

// hanging lists the producers that have a transaction open and were not heard of since.
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
