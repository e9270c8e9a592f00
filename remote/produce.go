package remote

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote/internal/link"
	"github.com/stratalog/strata/replication"
)

// A writer sends the batches of producers: to each broker in the order in which they come, several
// of them in one request. While requestsAtOnce requests have no response, it gathers batches.
type writer struct {
	s *session

	mu     sync.Mutex // guards the fields below
	lines  map[line]*sendQueue
	acks0  *link.Client // made when it is first needed
	closed bool

	wg sync.WaitGroup // goroutines of the queues and requests
}

// A line is a connection for produce requests. Requests with acks=0 have one of their own, since
// the other responses would have to wait for theirs.
type line struct {
	broker         int32
	unacknowledged bool
}

const (
	// requestsAtOnce bounds the produce requests to a broker that have no response yet. The order
	// of a partition does not depend on it: producers have MaxInFlight batches of each in flight,
	// often in requests of their own.
	requestsAtOnce = 16
	// requestBytes is the size above which a request takes no more batches. It keeps requests below
	// the default of Kafka's socket.request.max.bytes, 100 MiB.
	requestBytes = 16 << 20
	// transactionsV1 is the last version of Produce whose batches do not add their partitions to a
	// transaction (KIP-890).
	transactionsV1 = 11
)

// A sendQueue has the batches for one line that are not sent yet.
type sendQueue struct {
	w       *writer
	line    line
	waiting []*partition.ProduceRequest
	out     int  // requests without a response
	busy    bool // a request is being written
}

// Produce implements producer.Backend. It sends the batch to the leader of its partition, verified
// by the broker. The fields Built, DiscardRecords, LeaderEpoch, Guard and Coordinator have no
// effect.
func (s *session) Produce(req *partition.ProduceRequest) { s.writer.send(req) }

func (w *writer) send(req *partition.ProduceRequest) {
	tp := req.TopicPartition
	t, ok := w.s.topicInUse(tp.Topic)
	switch {
	case !ok || int(tp.Partition) >= len(t.Partitions):
		w.s.c.refreshSoon()
		req.Done(failed(&replication.UnknownTopicError{Topic: tp.Topic}))
		return
	case req.TopicID != [16]byte{} && req.TopicID != t.ID:
		req.Done(failed(&replication.UnknownTopicError{Topic: tp.Topic}))
		return
	case t.Partitions[tp.Partition].Leader < 0:
		w.s.c.refreshSoon()
		req.Done(failed(partition.ErrNotLeader))
		return
	}
	to := line{t.Partitions[tp.Partition].Leader, req.Acks == record.AcksNone}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		req.Done(failed(replication.ErrClosed))
		return
	}
	q := w.lines[to]
	if q == nil {
		q = &sendQueue{w: w, line: to}
		if w.lines == nil {
			w.lines = map[line]*sendQueue{}
		}
		w.lines[to] = q
	}
	q.waiting = append(q.waiting, req)
	q.startLocked()
	w.mu.Unlock()
}

// startLocked starts the next request, on a goroutine of its own, if one can be written.
func (q *sendQueue) startLocked() {
	if !q.busy && q.out < requestsAtOnce && len(q.waiting) > 0 {
		q.busy = true
		q.out++
		batches := q.nextLocked()
		q.w.wg.Go(func() { q.request(batches) })
	}
}

func failed(err error) partition.ProduceResult {
	return partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: err}
}

// nextLocked takes the batches of the next request: waiting ones, in their order, at most one of
// each partition, and only ones with the same values of the fields that a request has once.
func (q *sendQueue) nextLocked() (batches []*partition.ProduceRequest) {
	first, bytes := q.waiting[0], 0
	taken, left := map[record.TopicPartition]bool{}, q.waiting[:0]
	for _, r := range q.waiting {
		fits := r.Acks == first.Acks && r.TransactionalID == first.TransactionalID && r.TxnVersion == first.TxnVersion && r.Timeout == first.Timeout
		if fits && !taken[r.TopicPartition] && (bytes == 0 || bytes+len(r.Batch) <= requestBytes) {
			batches, bytes = append(batches, r), bytes+len(r.Batch)
		} else {
			left = append(left, r)
		}
		taken[r.TopicPartition] = true // a later batch of the partition must not overtake this one
	}
	clear(q.waiting[len(left):])
	q.waiting = left
	return batches
}

// request sends one request and passes the results on.
func (q *sendQueue) request(batches []*partition.ProduceRequest) {
	w := q.w
	req, maxVersion := produceRequest(batches)
	written := sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		q.busy = false
		q.startLocked()
	})
	var resp *kmsg.ProduceResponse
	var err error
	if q.line.unacknowledged {
		err = w.sendUnacknowledged(q.line.broker, req)
	} else if resp, err = w.s.link.Produce(w.s.ctx, q.line.broker, req, maxVersion, written); err != nil {
		err = w.s.transportError("produce", err)
	}
	written()
	w.mu.Lock()
	q.out--
	q.startLocked()
	w.mu.Unlock()
	if q.line.unacknowledged {
		for _, b := range batches {
			b.Done(failed(err))
		}
		return
	}
	for i, res := range w.s.c.results(batches, resp, err) {
		batches[i].Done(res)
	}
}

func (w *writer) sendUnacknowledged(broker int32, req *kmsg.ProduceRequest) error {
	w.mu.Lock()
	l, err := w.acks0, error(nil)
	if l == nil {
		if l, err = w.s.c.newLink(w.s.of.ClientID, true); err == nil {
			w.acks0 = l
		}
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.ProduceUnacknowledged(w.s.ctx, broker, req); err != nil {
		return w.s.transportError("produce", err)
	}
	return nil
}

// transportError returns the error of a request without a response, and has the leaders looked up.
func (s *session) transportError(op string, err error) error {
	if s.ctx.Err() != nil {
		return replication.ErrClosed
	}
	s.c.refreshSoon()
	return linkError(op, fromProduce, err)
}

// produceRequest builds the request for batches of several partitions.
func produceRequest(batches []*partition.ProduceRequest) (req *kmsg.ProduceRequest, maxVersion int16) {
	first := batches[0]
	req = kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, maxVersion = wireAcks(first.Acks), millis(first.Timeout), -1
	if first.TransactionalID != "" {
		req.TransactionID = &first.TransactionalID
		if first.TxnVersion < 2 {
			maxVersion = transactionsV1
		}
	}
	topics := index[string]{}
	for _, b := range batches {
		name := b.TopicPartition.Topic
		i, added := topics.of(name)
		if added {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = name, b.TopicID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = b.TopicPartition.Partition, b.Batch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
		if b.TopicID == [16]byte{} && (maxVersion < 0 || maxVersion > namesOnlyProduce) {
			maxVersion = namesOnlyProduce
		}
	}
	return req, maxVersion
}

// namesOnlyProduce is the last version of Produce that names topics instead of their ids.
const namesOnlyProduce = 12

// results returns the result of each batch of a request.
func (c *Cluster) results(batches []*partition.ProduceRequest, resp *kmsg.ProduceResponse, err error) []partition.ProduceResult {
	results := make([]partition.ProduceResult, len(batches))
	byPartition := map[record.TopicPartition]*kmsg.ProduceResponseTopicPartition{}
	if err == nil {
		for i := range resp.Topics {
			t := &resp.Topics[i]
			name := t.Topic
			if name == "" {
				name = nameOf(batches, t.TopicID)
			}
			for k := range t.Partitions {
				byPartition[record.TopicPartition{Topic: name, Partition: t.Partitions[k].Partition}] = &t.Partitions[k]
			}
		}
	}
	for i, b := range batches {
		p := byPartition[b.TopicPartition]
		switch {
		case err != nil:
			results[i] = failed(err)
		case p == nil:
			results[i] = failed(passing(ErrUnreachable)) // the response left the partition out
		default:
			results[i] = c.result(b.TopicPartition, p)
		}
	}
	return results
}

func nameOf(batches []*partition.ProduceRequest, id [16]byte) string {
	for _, b := range batches {
		if b.TopicID == id {
			return b.TopicPartition.Topic
		}
	}
	return ""
}

func (c *Cluster) result(tp record.TopicPartition, p *kmsg.ProduceResponseTopicPartition) partition.ProduceResult {
	res := partition.ProduceResult{BaseOffset: p.BaseOffset, LogAppendTimeMs: p.LogAppendTime, LogStartOffset: p.LogStartOffset, LeaderEpoch: p.CurrentLeader.LeaderEpoch}
	if p.ErrorCode == 0 {
		return res
	}
	res.BaseOffset, res.Err = -1, codeError(fromProduce, p.ErrorCode, p.ErrorMessage)
	for _, r := range p.ErrorRecords {
		invalid := partition.RecordError{Index: r.RelativeOffset}
		if r.ErrorMessage != nil {
			invalid.Reason = *r.ErrorMessage
		}
		res.Records = append(res.Records, invalid)
	}
	switch p.ErrorCode {
	case kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code:
		c.moved(tp.Topic, tp.Partition, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
	case kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.KafkaStorageError.Code, kerr.UnknownLeaderEpoch.Code:
		c.refreshSoon()
	}
	return res
}

// close ends the queues: batches that were not sent fail.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	var left []*partition.ProduceRequest
	for _, q := range w.lines {
		left = append(left, q.waiting...)
		q.waiting = nil
	}
	acks0 := w.acks0
	w.mu.Unlock()
	for _, r := range left {
		r.Done(failed(replication.ErrClosed))
	}
	if acks0 != nil {
		acks0.Close()
	}
	w.wg.Wait()
}

// InitProducerID implements producer.Backend.
func (s *session) InitProducerID(ctx context.Context) (id int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60_000 // without a meaning here; some brokers check it
	resp, err := toAny[*kmsg.InitProducerIDResponse](ctx, s, "init producer id", fromTransaction, req)
	if err == nil {
		err = codeError(fromTransaction, resp.ErrorCode, nil)
	}
	if err != nil {
		return -1, -1, err
	}
	return resp.ProducerID, resp.ProducerEpoch, nil
}
