package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// changed is a batch of one record after fn, with a matching CRC.
func changed(fn func(p []byte) []byte) []byte {
	p := fn(batch("k", "value"))
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[21:], crc32.MakeTable(crc32.Castagnoli)))
	return p
}

func sizedBatch(t *testing.T, size int) []byte {
	t.Helper()
	value := make([]byte, size-100)
	for range 3 {
		var b record.Builder
		b.AppendKV(time.Now().UnixMilli(), nil, value, nil)
		p, err := b.AppendBatch(nil, record.None)
		require.NoError(t, err)
		if len(p) == size {
			return p
		}
		value = make([]byte, len(value)+size-len(p))
	}
	t.Fatal("no such size")
	return nil
}

func produceServer(t *testing.T) (*Server, *client) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	for name, properties := range map[string]map[string]string{
		"t": nil, "compacted": {"cleanup.policy": "compact"}, "stamped": {"message.timestamp.type": "LogAppendTime"},
	} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Properties: properties}))
	}
	return s, dial(t, addr)
}

// The errors are those of Kafka 4.3, except for the two with a comment: -1 is less specific.
func TestProduceRefusesWhatKafkaRefusesWithItsCodes(t *testing.T) {
	_, c := produceServer(t)
	good := batch("k", "value")
	codec := func(n byte) []byte { return changed(func(p []byte) []byte { p[22] |= n; return p }) }
	for _, tc := range []struct {
		name    string
		topic   string
		version int16
		records []byte
		want    Code
		blamed  int // records
	}{
		{"unknown topic", "none", 9, good, UnknownTopicOrPartition, 0},
		{"invalid name", "no/such", 9, good, UnknownTopicOrPartition, 0},
		{"unknown id", "", 13, good, UnknownTopicID, 0},
		{"internal topic that is not there", "__consumer_offsets", 9, good, UnknownTopicOrPartition, 0},
		{"null", "t", 9, nil, InvalidRecord, 0},
		{"empty", "t", 9, []byte{}, InvalidRecord, 0},
		{"cut", "t", 9, good[:len(good)-1], InvalidRecord, 0},
		{"two batches", "t", 9, append(bytes.Clone(good), good...), InvalidRecord, 0},
		{"base offset", "t", 9, changed(func(p []byte) []byte { p[7] = 1; return p }), InvalidRecord, 0},
		{"count", "t", 9, changed(func(p []byte) []byte { p[60] = 2; return p }), InvalidRecord, 0},
		{"control bit", "t", 9, changed(func(p []byte) []byte { p[22] |= 0x20; return p }), InvalidRecord, 0},
		{"producer without sequence", "t", 9, changed(func(p []byte) []byte { copy(p[43:], make([]byte, 8)); return p }), InvalidRecord, 0},
		{"magic 1", "t", 9, changed(func(p []byte) []byte { p[16] = 1; return p }), InvalidRecord, 0},
		{"magic 3", "t", 9, changed(func(p []byte) []byte { p[16] = 3; return p }), CorruptMessage, 0},
		{"crc", "t", 9, append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), CorruptMessage, 0},
		{"no key", "compacted", 9, sizedBatch(t, 200), InvalidRecord, 1},
		{"time to come", "t", 9, changed(func(p []byte) []byte {
			late := uint64(time.Now().Add(2 * time.Hour).UnixMilli())
			binary.BigEndian.PutUint64(p[27:], late)
			binary.BigEndian.PutUint64(p[35:], late)
			return p
		}), InvalidTimestamp, 1},
		{"zstd of old", "t", 6, codec(4), UnsupportedCompressionType, 0},
		{"unknown codec", "t", 9, codec(7), UnsupportedCompressionType, 0}, // Kafka: -1
		{"garbage in gzip", "t", 9, codec(1), InvalidRecord, 0},            // Kafka: -1
		{"transactional", "t", 9, changed(func(p []byte) []byte {
			p[22] |= 0x10
			copy(p[43:], make([]byte, 14))
			return p
		}), TransactionalIDAuthorizationFailed, 0},
		{"too large", "t", 9, sizedBatch(t, 1_048_589), MessageTooLarge, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &client{t: t, nc: c.nc, next: c.next + 1000}
			p := c.ask(produceOne(tc.version, tc.topic, tc.records)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			require.Equal(t, tc.want, Code(p.ErrorCode))
			require.EqualValues(t, -1, p.BaseOffset)
			require.EqualValues(t, -1, p.LogAppendTime)
			if tc.version >= 8 {
				require.Len(t, p.ErrorRecords, tc.blamed)
				require.NotNil(t, p.ErrorMessage)
			}
		})
	}
	p := c.ask(produceOne(9, "t", sizedBatch(t, 1_048_588))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Zero(t, p.ErrorCode, "the largest there is")
	require.Zero(t, p.BaseOffset, "nothing of the others was appended")
}

func TestProduceRefusesUnknownAcksForEveryPartition(t *testing.T) {
	_, c := produceServer(t)
	req := produceOne(9, "t", batch("k", "v"))
	req.Acks = 2
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0])
	for _, p := range c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		require.Equal(t, InvalidRequiredAcks, Code(p.ErrorCode))
	}
}

func TestProduceWithoutAcksIsNotAnsweredAndAnErrorClosesTheConnection(t *testing.T) {
	s, c := produceServer(t)
	silent := produceOne(9, "t", batch("k", "v"))
	silent.Acks = 0
	c.send(silent)
	p := c.ask(produceOne(9, "t", batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.EqualValues(t, 1, p.BaseOffset, "behind the one without an answer")
	silent.Topics[0].Topic = "none"
	c.send(silent)
	c.closed()
	alive := dial(t, c.nc.RemoteAddr().String())
	require.Zero(t, alive.ask(produceOne(9, "t", batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	require.EqualValues(t, 3, s.cluster.Status("t", 0).HighWatermark)
}

func TestProduceTellsTheAppendTimeOfTopicsThatHaveOne(t *testing.T) {
	_, c := produceServer(t)
	before := time.Now().UnixMilli()
	p := c.ask(produceOne(9, "stamped", batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.GreaterOrEqual(t, p.LogAppendTime, before)
	p = c.ask(produceOne(9, "t", batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.EqualValues(t, -1, p.LogAppendTime)
	require.Zero(t, p.LogStartOffset)
}

// Every version is served, with names and with ids.
func TestProduceIsServedInEveryVersion(t *testing.T) {
	s, c := produceServer(t)
	id, known := s.cluster.TopicID("t")
	require.True(t, known)
	for version := int16(3); version <= 13; version++ {
		req := produceOne(version, "t", batch("k", "v"))
		req.Topics[0].TopicID = id
		resp := c.ask(req).(*kmsg.ProduceResponse)
		p := resp.Topics[0].Partitions[0]
		require.Zero(t, p.ErrorCode, version)
		require.EqualValues(t, version-3, p.BaseOffset)
		if version >= 13 {
			require.EqualValues(t, id, resp.Topics[0].TopicID)
		}
	}
}

// Pipelined requests of several kinds are answered in their order.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	_, c := produceServer(t)
	const n = 200
	go func() {
		var all []byte
		for i := range int32(n) {
			var req kmsg.Request = produceOne(9, "t", batch("k", "v"))
			if i%7 == 6 {
				req = want(12, "t", 0)
			}
			all = append(all, kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, i)...)
		}
		c.nc.Write(all)
	}()
	offset := int64(0)
	for i := range int32(n) {
		frame := c.frame()
		require.EqualValues(t, i, binary.BigEndian.Uint32(frame))
		if i%7 == 6 {
			resp := kmsg.NewPtrFetchResponse()
			resp.SetVersion(12)
			require.NoError(t, resp.ReadFrom(frame[5:]))
			require.EqualValues(t, offset, resp.Topics[0].Partitions[0].HighWatermark, "all before it are done, none behind it has begun")
			continue
		}
		resp := kmsg.NewPtrProduceResponse()
		resp.SetVersion(9)
		require.NoError(t, resp.ReadFrom(frame[5:]))
		require.EqualValues(t, offset, resp.Topics[0].Partitions[0].BaseOffset)
		offset++
	}
	c.nc.SetReadDeadline(time.Now())
	_, err := c.nc.Read(make([]byte, 1))
	require.NotErrorIs(t, err, io.EOF)
}

// If one batch of a request may not be written in the request's transaction, no batch of it is
// written. That includes batches outside transactions.
func TestTransactionalRequestIsRefusedAsAWhole(t *testing.T) {
	s, c := produceServer(t)
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "four", topic.Config{Partitions: 4}))
	transactions := s.cluster.TransactionCoordinator()
	p, err := transactions.InitProducerID(t.Context(), "tx", time.Minute, transaction.NoProducer)
	require.NoError(t, err)
	require.NoError(t, transactions.AddPartitions(t.Context(), transaction.AddRequest{ID: "tx", Producer: p,
		Partitions: []record.TopicPartition{{Topic: "four"}, {Topic: "four", Partition: 2}}}))
	one, other := byte(p.ID), byte(p.ID+1)
	inTxn := func(pid byte) []byte {
		return changed(func(p []byte) []byte {
			p[22] |= 0x10
			copy(p[43:], make([]byte, 14))
			p[50] = pid
			return p
		})
	}
	id := "tx"
	for _, tc := range []struct {
		name    string
		id      *string
		batches [][]byte
		want    Code
	}{
		{"no transactional id", nil, [][]byte{batch("k", "v"), inTxn(one)}, TransactionalIDAuthorizationFailed},
		{"two producers", &id, [][]byte{inTxn(one), batch("k", "v"), inTxn(other)}, InvalidProducerIDMapping},
		{"plain batches only", nil, [][]byte{batch("k", "v"), batch("k", "v")}, 0},
		{"one producer", &id, [][]byte{inTxn(one), batch("k", "v"), inTxn(one), {}}, 0},
	} {
		req := produceOne(9, "four", tc.batches[0])
		req.TransactionID = tc.id
		for i, b := range tc.batches[1:] {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition, part.Records = int32(i+1), b
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
		}
		for i, p := range c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
			want := tc.want
			if len(tc.batches[i]) == 0 {
				want = InvalidRecord
			}
			require.Equal(t, want, Code(p.ErrorCode), "%s, partition %d", tc.name, i)
		}
	}
}

func TestVersionOfProduceSaysWhatItsClientKnowsOfTransactions(t *testing.T) {
	for version, want := range map[int16]struct {
		txn  int16
		code Code
	}{3: {0, InvalidTxnState}, 10: {0, InvalidTxnState}, 11: {0, TransactionAbortable}, 12: {2, TransactionAbortable}, 13: {2, TransactionAbortable}} {
		require.Equal(t, want.txn, txnVersion(version), "version %d", version)
		require.Equal(t, want.code, Code(produceCode(int16(codeOf(partition.ErrTxnAbortable)), version)), "version %d", version)
	}
	for err, want := range map[error]Code{
		partition.ErrConcurrentTransactions: ConcurrentTransactions, partition.ErrProducerIDMapping: InvalidProducerIDMapping,
		partition.ErrInvalidTxnState: InvalidTxnState, partition.ErrInvalidProducerEpoch: InvalidProducerEpoch,
	} {
		require.Equal(t, want, Code(produceCode(int16(codeOf(err)), 13)))
	}
}
