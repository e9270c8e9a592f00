package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka/internal/transport"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

var (
	errNoBatch          = refuse(CorruptMessage, "kafka: produce request with bytes that are no batch")
	errNoRecords        = refuse(InvalidRecord, "kafka: produce request without records")
	errInternalTopic    = refuse(InvalidTopicException, "kafka: internal topics are not written to by clients")
	errUnknownID        = refuse(UnknownTopicID, "kafka: no topic has this id")
	errSeveralProducers = refuse(InvalidProducerIDMapping, "kafka: batches of a transaction by several producers")
	errZstdVersion      = refuse(UnsupportedCompressionType, "kafka: zstd needs version 7 of produce")
)

// producing is a produce request in progress. All its batches are passed to their partitions at
// once. The completion of the last batch sends the response.
type producing struct {
	c        *call
	req      *kmsg.ProduceRequest
	resp     *kmsg.ProduceResponse
	done     func(resp kmsg.Response, by transport.Writer)
	left     atomic.Int32 // partitions that are not done, plus one while produce starts them
	failed   atomic.Bool  // a partition has an error
	retained atomic.Bool  // a partition still uses the request's bytes
}

// produce appends each batch as it is, without copying or encoding it again: the log writes the
// bytes of the request. Key 0, versions 3 to 13.
func produce(c *call, r kmsg.Request, done func(resp kmsg.Response, by transport.Writer)) {
	req := r.(*kmsg.ProduceRequest)
	p := &producing{c: c, req: req, resp: req.ResponseKind().(*kmsg.ProduceResponse), done: done}
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	p.left.Store(1)
	if req.TransactionID != nil {
		defer c.view.GatherWrites(*req.TransactionID)()
	}
	refused := checkTransaction(req)
	for i := range req.Topics {
		t := &req.Topics[i]
		p.resp.Topics[i] = kmsg.ProduceResponseTopic{
			Topic: t.Topic, TopicID: t.TopicID, Partitions: make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions)),
		}
		p.topic(t, &p.resp.Topics[i], refused)
	}
	p.finishOne(transport.Caller)
}

// topic appends the batches of a topic, or rejects them with err.
func (p *producing) topic(t *kmsg.ProduceRequestTopic, out *kmsg.ProduceResponseTopic, err error) {
	name := t.Topic
	if err == nil && p.c.version >= 13 {
		var known bool
		if name, known = p.c.s.cluster.TopicName(t.TopicID); !known {
			err = errUnknownID
		}
	}
	requests := make([]partition.ProduceRequest, len(t.Partitions))
	p.left.Add(int32(len(t.Partitions)))
	for i := range t.Partitions {
		in, to := &t.Partitions[i], &out.Partitions[i]
		*to = kmsg.NewProduceResponseTopicPartition()
		to.Partition = in.Partition
		q := &requests[i]
		q.TopicPartition = record.TopicPartition{Topic: name, Partition: in.Partition}
		if p.c.version >= 13 {
			q.TopicID = t.TopicID // before the append another topic may take the name
		}
		q.Batch, q.DiscardRecords = in.Records, p.c.discards
		q.Timeout = max(time.Duration(p.req.TimeoutMillis)*time.Millisecond, time.Millisecond)
		q.Done = func(result partition.ProduceResult) { p.partition(to, result) }
		if p.req.TransactionID != nil {
			q.TransactionalID = *p.req.TransactionID
			q.TxnVersion = txnVersion(p.c.version)
		}
		failure := err
		if failure == nil {
			if failure = p.check(q); failure == nil && topic.IsInternal(name) {
				failure = errInternalTopic
			}
			if failure != nil { // Kafka first checks that the partition exists
				if _, err := p.c.partitionOf(name, in.Partition); err != nil {
					failure = err
				}
			}
		}
		if failure != nil {
			q.Done(partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: failure})
			continue
		}
		p.c.view.Produce(q)
	}
}

// Positions in a batch, and its shortest length in any format.
const (
	batchLength     = 8
	batchMagic      = 16
	batchAttributes = 22
	batchProducer   = 43
	batchSequence   = 53
	shortestBatch   = 14
)

// hasTransaction reports whether a request has a transactional batch. Like Kafka it stops at the
// first one. It returns errNoBatch, which rejects the whole request, if bytes before that one are
// no batch. Kafka: RequestUtils.hasTransactionalRecords, ByteBufferLogInputStream.
func hasTransaction(req *kmsg.ProduceRequest) (bool, error) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			b := req.Topics[i].Partitions[j].Records
			if isOfTransaction(b) {
				return true, nil
			}
			if len(b) >= batchLength+4 && int32(binary.BigEndian.Uint32(b[batchLength:])) < shortestBatch || len(b) > batchMagic && b[batchMagic] > 2 {
				return false, errNoBatch
			}
		}
	}
	return false, nil
}

func isOfTransaction(b []byte) bool {
	return len(b) >= batchSequence && b[batchMagic] == 2 && b[batchAttributes]&0x10 != 0
}

// checkTransaction returns the error of a request that is rejected as a whole. Such a request has
// transactional batches without a transactional id, or of several producers, or fails
// hasTransaction. Kafka: KafkaApis.handleProduceRequest, ReplicaManager.handleProduceAppend.
func checkTransaction(req *kmsg.ProduceRequest) error {
	if _, err := hasTransaction(req); err != nil {
		return err
	}
	var first []byte // producer id and epoch
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			b := req.Topics[i].Partitions[j].Records
			if !isOfTransaction(b) {
				continue
			}
			who := b[batchProducer:batchSequence]
			switch {
			case req.TransactionID == nil:
				return partition.ErrTransactionalID
			case first != nil && !bytes.Equal(first, who):
				return errSeveralProducers
			}
			first = who
		}
	}
	return nil
}

// txnVersion returns the transaction.version of a client by the version of its request. With 2, a
// batch adds its partition to the transaction; with 0, the client has added it before.
func txnVersion(version int16) int16 {
	if version >= 12 {
		return 2
	}
	return 0
}

// produceCode returns the code of an error for clients of a version, which may not support it.
func produceCode(code int16, version int16) int16 {
	if Code(code) == TransactionAbortable && version < 11 {
		return int16(InvalidTxnState)
	}
	return code
}

// name returns the name of a topic of the response, which from version 13 on has only its id.
func (p *producing) name(t *kmsg.ProduceResponseTopic) string {
	if p.c.version < 13 {
		return t.Topic
	}
	name, _ := p.c.s.cluster.TopicName(t.TopicID)
	return name
}

// check sets q.Acks, and returns the errors of the request itself. The partition validates the
// batch.
func (p *producing) check(q *partition.ProduceRequest) error {
	if len(q.Batch) == 0 {
		return errNoRecords
	}
	const attributes, zstd = 22, 4 // of a batch: the position of the low byte, the codec
	if p.c.version < 7 && len(q.Batch) > attributes && q.Batch[attributes]&7 == zstd {
		return errZstdVersion
	}
	switch p.req.Acks {
	case -1:
		q.Acks = record.AcksAll
	case 0:
		q.Acks = record.AcksNone
	case 1:
		q.Acks = record.AcksLeader
	default:
		return partition.ErrInvalidAcks
	}
	return nil
}

// partition adds the result of one partition to the response.
func (p *producing) partition(to *kmsg.ProduceResponseTopicPartition, r partition.ProduceResult) {
	to.BaseOffset, to.LogAppendTime, to.LogStartOffset = r.BaseOffset, r.LogAppendTimeMs, r.LogStartOffset
	if r.Err != nil {
		p.failed.Store(true)
		if errors.Is(r.Err, partition.ErrTimeout) {
			p.retained.Store(true)
		}
		if to.BaseOffset = -1; refusedByCoordinator(r.Err) {
			to.LogStartOffset = -1 // as in Kafka, which rejects it before it reads the log
		}
		to.ErrorCode = produceCode(p.c.errorCode(r.Err), p.c.version)
		to.ErrorMessage = errorMessage(r.Err)
		for _, e := range r.Records {
			to.ErrorRecords = append(to.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: e.Index, ErrorMessage: &e.Reason})
		}
	}
	p.finishOne(transport.Another)
}

// refusedByCoordinator reports whether the transaction coordinator has rejected a write.
func refusedByCoordinator(err error) bool {
	return errors.Is(err, transaction.ErrProducerFenced) || errors.Is(err, partition.ErrProducerIDMapping) ||
		errors.Is(err, partition.ErrTxnAbortable) || errors.Is(err, partition.ErrConcurrentTransactions)
}

// finishOne counts down the remaining parts. The last one answers the request.
func (p *producing) finishOne(by transport.Writer) {
	if p.left.Add(-1) > 0 {
		return
	}
	p.c.retained = p.retained.Load()
	p.resp.Topics = slices.DeleteFunc(p.resp.Topics, func(t kmsg.ProduceResponseTopic) bool { return len(t.Partitions) == 0 })
	if p.failed.Load() {
		p.c.hintProduce(p.resp, p.name)
	}
	if p.req.Acks != 0 {
		p.done(p.resp, by)
		return
	}
	// With acks=0 there is no response. The only way to report an error is to close the
	// connection.
	p.c.closing = p.failed.Load()
	p.done(nil, by)
}
