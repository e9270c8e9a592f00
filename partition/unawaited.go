package partition

import (
	"slices"
	"sync/atomic"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// maxUnawaited bounds the bytes of a partition's batches that were answered and are not written
// yet.
const maxUnawaited = 4 << 20

// unawaited reports whether req, with AcksNone, need not wait until it is written. Under SyncOnAck
// that may be behind a sync that other requests wait for. An idempotent producer always waits,
// since its result depends on the write: the batch may be a duplicate.
func (p *Partition) unawaited(req *ProduceRequest) bool {
	return p.syncOnAck.Load() && !req.append.Info.HasProducerID()
}

// submitUnawaited submits a copy of the prepared request and answers it: the outcome is not known
// yet, unless the log refuses the batch at once. It returns false, with nothing done, if so much is
// waiting to be written already that the sender has to wait, too.
func (p *Partition) submitUnawaited(req *ProduceRequest) bool {
	bytes := int64(len(req.append.Batch))
	if p.unawaitedBytes.Add(bytes) > maxUnawaited {
		p.unawaitedBytes.Add(-bytes)
		return false
	}
	var outcome atomic.Pointer[ProduceResult] // set when the log is done with the copy
	c := &ProduceRequest{
		TopicPartition: req.TopicPartition, Acks: record.AcksNone, p: p, result: req.result,
		Done: func(r ProduceResult) {
			p.unawaitedBytes.Add(-bytes)
			outcome.Store(&r)
		},
	}
	c.append.Batch, c.append.Emptied = slices.Clone(req.append.Batch), req.append.Emptied
	p.submitAppend(c, log.WaitWritten)
	if r := outcome.Load(); r != nil {
		req.result = *r
	}
	req.Done(req.result)
	return true
}
