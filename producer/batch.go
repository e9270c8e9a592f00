package producer

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// batchState is the progress of a batch.
type batchState uint8

const (
	open   batchState = iota // accepts records; the last batch of its partition
	queued                   // complete, to be sent (again)
	sent                     // with the backend
	done                     // settled; reported when all earlier batches are reported
)

// A batch is a set of records of one partition, sent together. Its fields are guarded by the mutex
// of its part, except where stated.
type batch struct {
	part *partitionQueue
	next *batch // next batch of the partition

	footprint int // its approximate memory while it is free

	builder record.Builder
	bytes   []byte // the encoded batch, from the first drain on; owned by the drainer, aliases builder or buf
	buf     []byte // memory for compressed batches
	req     *partition.ProduceRequest
	doneFn  func(partition.ProduceResult) // answered, as a bound method value

	state    batchState
	limit    int   // size up to which an open batch accepts records; above BatchBytes: it is extended
	gathers  bool  // open, and not sent until it is full, a Send adds to it, or the next tick
	attempts int   // failed attempts
	created  int64 // on the producer's clock
	deadline int64
	count    int32 // records
	memory   int64 // bytes claimed

	sequenced     bool // the next three are assigned
	producerID    int64
	producerEpoch int16
	sequence      int32
	encodedID     int64 // producer state encoded in bytes; owned by the drainer
	encodedEpoch  int16
	// time of sending to the backend, on the producer's clock; owned by the drainer until then
	handedAt int64
	took     int64 // time until the backend answered; set before decideLocked

	possiblyWritten bool  // an attempt ended, and the batch may be in the log
	tainted         bool  // the backend may still read bytes and req
	orphan          bool  // settled while the backend had it; the response is ignored
	lost            error // error unless it turns out to be written; nil: it is retried
	leaderEpoch     int32 // as known when it was sent
	topicID         topic.ID

	result  partition.ProduceResult // once done
	err     error                   // once done
	calls   []entry                 // records of Send
	asyncs  []callback              // records of SendAsync with a callback
	flushes []*flushWait
}

// recipient is the receiver of a record's outcome.
type recipient struct {
	done  func(record.Record, error) // of SendAsync, may be nil
	call  *sendCall                  // of Send, may be nil
	index int32                      // in call
}

// entry is a record in a batch whose recipient is a call.
type entry struct {
	recipient
	tsMs     int64
	size     int64
	layout   int64 // of the view by which the partition was chosen
	position int32 // in the batch
	chosen   bool  // by a BatchAware partitioner
}

// callback is a record in a batch whose recipient is a function.
type callback struct {
	r        record.Record
	done     func(record.Record, error)
	tsMs     int64
	position int32
}

// newBatch returns an open batch; now is on the producer's clock, and size the expected size.
func (p *Producer) newBatch(pt *partitionQueue, now, size int64) *batch {
	var b *batch
	if size > int64(p.cfg.BatchBytes) {
		b = p.batches.get(&p.batches.large)
	}
	if b == nil {
		b = p.batches.get(&p.batches.small)
	}
	if b == nil {
		b = &batch{}
		b.doneFn = b.answered
	}
	if b.req == nil {
		b.req = &partition.ProduceRequest{}
	}
	b.part, b.created, b.deadline = pt, now, now+int64(p.cfg.DeliveryTimeout)
	b.limit = p.cfg.BatchBytes
	b.builder.Reset(b.limit)
	b.builder.Expect(0)
	if p.cfg.Compression == record.None {
		b.builder.SumEarly() // the sender completes it, usually on another processor
	}
	return b
}

// maxPooledBytes is the size up to which the memory of a batch is reused.
const maxPooledBytes = 1 << 20

// largeBatch: a free batch with the memory of more than this many of Config.BatchBytes is large.
const largeBatch = 2

// recycle clears b and makes it available again. No other code may refer to b.
func (p *Producer) recycle(b *batch) {
	if b.tainted || b.orphan || len(b.bytes) > maxPooledBytes || b.builder.Size() > maxPooledBytes {
		return
	}
	poison(b.bytes)
	clear(b.calls)
	clear(b.asyncs)
	clear(b.flushes)
	memory := b.builder.Cap() + cap(b.buf)
	*b = batch{footprint: 1<<10 + memory + 64*cap(b.calls) + 256*cap(b.asyncs), builder: b.builder, buf: b.buf, req: b.req, doneFn: b.doneFn, calls: b.calls[:0], asyncs: b.asyncs[:0], flushes: b.flushes[:0]}
	if memory > largeBatch*p.cfg.BatchBytes {
		p.batches.put(&p.batches.large, b)
	} else {
		p.batches.put(&p.batches.small, b)
	}
}

// extended reports whether b is larger than Config.BatchBytes because it waited for MaxInFlight
// others. It is sent as soon as one of these is done.
func (b *batch) extended() bool { return b.limit > b.part.p.cfg.BatchBytes }

// add adds a record and fills in e.position. It returns false if the batch is full.
func (b *batch) add(r *record.Record, e *entry) bool {
	if !b.builder.AppendKV(e.tsMs, r.Key, r.Value, r.Headers) {
		return false
	}
	e.position = b.count
	b.count++
	b.memory += e.size
	switch {
	case e.call != nil:
		b.calls = append(b.calls, *e)
	case e.done != nil:
		b.asyncs = append(b.asyncs, callback{r: *r, done: e.done, tsMs: e.tsMs, position: e.position})
	}
	return true
}

// Positions of the fields that the producer rewrites in an encoded batch. See record.HeaderSize.
const (
	posProducerID    = 43
	posProducerEpoch = 51
	posBaseSequence  = 53
)

// encode sets bytes: the first time from the builder, later only if id or epoch have changed. Only
// the drainer calls it, without the lock: no other code changes a batch that is not open.
func (b *batch) encode(codec record.Codec, transactional bool) error {
	if b.tainted {
		b.bytes, b.req, b.tainted = slices.Clone(b.bytes), &partition.ProduceRequest{}, false
		b.builder, b.buf = record.Builder{}, nil // left to code that still reads them
	}
	if b.bytes != nil {
		if b.sequenced && (b.encodedID != b.producerID || b.encodedEpoch != b.producerEpoch) {
			b.rename()
		}
		return nil
	}
	if b.sequenced {
		b.builder.SetProducer(b.producerID, b.producerEpoch, b.sequence)
		b.builder.SetTransactional(transactional)
		b.encodedID, b.encodedEpoch = b.producerID, b.producerEpoch
	}
	if codec == record.None {
		b.bytes = b.builder.Bytes()
		return nil
	}
	out, err := b.builder.AppendBatch(b.buf[:0], codec)
	if err == nil {
		b.bytes, b.buf = out, out
	}
	return err
}

// rename writes a new id, epoch and sequence into the encoded batch.
func (b *batch) rename() {
	binary.BigEndian.PutUint64(b.bytes[posProducerID:], uint64(b.producerID))
	binary.BigEndian.PutUint16(b.bytes[posProducerEpoch:], uint16(b.producerEpoch))
	binary.BigEndian.PutUint32(b.bytes[posBaseSequence:], uint32(b.sequence))
	b.encodedID, b.encodedEpoch = b.producerID, b.producerEpoch
	if h, err := record.ParseHeader(b.bytes); err == nil {
		// updates the CRC; the rest stays the same
		record.Stamp(b.bytes, h.TimestampType(), h.MaxTimestamp)
	}
}

// report delivers the outcome to all recipients. It runs once, without locks, after the batches
// before it.
func (b *batch) report() {
	res := &b.result
	index := b.part.index // read once: adjacent fields change with every record that is sent
	for i := range b.calls {
		e := &b.calls[i]
		a := Ack{Partition: index, Offset: -1, Err: b.errorOf(e.position)}
		if a.Err == nil {
			a.Timestamp = time.UnixMilli(e.tsMs)
			if res.LogAppendTimeMs >= 0 {
				a.Timestamp = time.UnixMilli(res.LogAppendTimeMs)
			}
			a.Offset = offsetOf(res, e.position)
		}
		e.call.setAck(int(e.index), a)
	}
	for i := range b.asyncs {
		a := &b.asyncs[i]
		a.r.Partition, a.r.Offset, a.r.LeaderEpoch = index, -1, res.LeaderEpoch
		err := b.errorOf(a.position)
		if err == nil {
			a.r.Offset = offsetOf(res, a.position)
			a.r.Timestamp = time.UnixMilli(a.tsMs)
			if res.LogAppendTimeMs >= 0 {
				a.r.Timestamp, a.r.TimestampType = time.UnixMilli(res.LogAppendTimeMs), record.LogAppendTime
			}
		}
		a.done(a.r, err)
	}
}

func offsetOf(res *partition.ProduceResult, position int32) int64 {
	if res.BaseOffset < 0 {
		return -1
	}
	return res.BaseOffset + int64(position)
}

// errorOf returns the error of one record: the leader may have named only some of them.
func (b *batch) errorOf(position int32) error {
	if b.err == nil || len(b.result.Records) == 0 {
		return b.err
	}
	for _, r := range b.result.Records {
		if r.Index == position {
			return &RecordError{Reason: r.Reason, Err: b.err}
		}
	}
	return &RecordError{Reason: "another record of the batch was refused", Err: b.err}
}

// A RecordError is the outcome of one record in a batch that the leader rejected because of some of
// its records.
type RecordError struct {
	Reason string
	Err    error // the error of the batch
}

func (e *RecordError) Error() string { return e.Err.Error() + ": " + e.Reason }

// Unwrap returns the error of the batch.
func (e *RecordError) Unwrap() error { return e.Err }
