package kafka

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction"
)

// A txnClient sends the requests of the producer of one transactional id.
type txnClient struct {
	t     *testing.T
	addr  string
	id    string
	pid   int64
	epoch int16
}

// beginTxn finds the coordinator and begins as the producer of id.
func beginTxn(t *testing.T, addr, id string) *txnClient {
	t.Helper()
	p := &txnClient{t: t, addr: addr, id: id}
	require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: id, CoordinatorType: 1}).ErrorCode)
	for {
		got := ask[*kmsg.InitProducerIDResponse](t, addr, 4, p.initRequest(-1, -1))
		if Code(got.ErrorCode) == ConcurrentTransactions {
			continue
		}
		require.Zero(t, got.ErrorCode)
		p.pid, p.epoch = got.ProducerID, got.ProducerEpoch
		return p
	}
}

func (p *txnClient) initRequest(pid int64, epoch int16) *kmsg.InitProducerIDRequest {
	return &kmsg.InitProducerIDRequest{TransactionalID: &p.id, TransactionTimeoutMillis: 60_000, ProducerID: pid, ProducerEpoch: epoch}
}

// add adds partitions to the transaction, in any version, and returns the code of each.
func (p *txnClient) add(version int16, tps ...record.TopicPartition) map[record.TopicPartition]Code {
	p.t.Helper()
	req := &kmsg.AddPartitionsToTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch}
	inner := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch}
	for _, tp := range tps {
		req.Topics = append(req.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: tp.Topic, Partitions: []int32{tp.Partition}})
		inner.Topics = append(inner.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: tp.Topic, Partitions: []int32{tp.Partition}})
	}
	req.Transactions = append(req.Transactions, inner)
	got := ask[*kmsg.AddPartitionsToTxnResponse](p.t, p.addr, version, req)
	codes := map[record.TopicPartition]Code{}
	for _, t := range got.Topics {
		codes[record.TopicPartition{Topic: t.Topic, Partition: t.Partitions[0].Partition}] = Code(t.Partitions[0].ErrorCode)
	}
	for _, txn := range got.Transactions {
		require.Equal(p.t, p.id, txn.TransactionalID)
		for _, t := range txn.Topics {
			codes[record.TopicPartition{Topic: t.Topic, Partition: t.Partitions[0].Partition}] = Code(t.Partitions[0].ErrorCode)
		}
	}
	return codes
}

// addAll adds partitions without an error. It waits for the end of the previous transaction.
func (p *txnClient) addAll(tps ...record.TopicPartition) {
	p.t.Helper()
	for _, tp := range tps {
		for code := ConcurrentTransactions; code != 0; code = p.add(3, tp)[tp] {
			require.Equal(p.t, ConcurrentTransactions, code)
		}
	}
}

func (p *txnClient) end(version int16, commit bool) *kmsg.EndTxnResponse {
	p.t.Helper()
	return ask[*kmsg.EndTxnResponse](p.t, p.addr, version, &kmsg.EndTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Commit: commit})
}

func (p *txnClient) describe() kmsg.DescribeTransactionsResponseTransactionState {
	p.t.Helper()
	return ask[*kmsg.DescribeTransactionsResponse](p.t, p.addr, 0, &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{p.id}}).TransactionStates[0]
}

// awaitState waits until the transaction is in a state.
func (p *txnClient) awaitState(state string) {
	p.t.Helper()
	for d := p.describe(); d.State != state; d = p.describe() {
		require.Contains(p.t, []string{"PrepareCommit", "PrepareAbort"}, d.State)
	}
}

// write produces one record in the transaction.
func (p *txnClient) write(version int16, tp record.TopicPartition, sequence int32) kmsg.ProduceResponseTopicPartition {
	p.t.Helper()
	var b record.Builder
	b.SetProducer(p.pid, p.epoch, sequence)
	b.SetTransactional(true)
	b.AppendKV(time.Now().UnixMilli(), nil, []byte(p.id), nil)
	records, err := b.Build(record.None)
	require.NoError(p.t, err)
	req, t, part := kmsg.NewPtrProduceRequest(), kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	req.TransactionID, req.Acks, req.TimeoutMillis, t.Topic, part.Partition, part.Records = &p.id, -1, 10_000, tp.Topic, tp.Partition, records
	t.Partitions, req.Topics = append(t.Partitions, part), append(req.Topics, t)
	req.Topics[0].Partitions = t.Partitions
	return ask[*kmsg.ProduceResponse](p.t, p.addr, version, req).Topics[0].Partitions[0]
}

var orders0 = record.TopicPartition{Topic: "orders"}

// endOf returns the end of partition 0 of orders for readers of an isolation level.
func endOf(t *testing.T, addr string, isolation int8) int64 {
	t.Helper()
	req, rt, p := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	req.IsolationLevel, rt.Topic, p.Timestamp = isolation, "orders", -1
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.ListOffsetsResponse](t, addr, 8, req).Topics[0].Partitions[0]
	require.Zero(t, got.ErrorCode)
	return got.Offset
}

func TestPartitionsJoinATransactionAllOrNone(t *testing.T) {
	_, addr := serve(t, Config{NoAutoCreate: true})
	createTopic(t, addr, "orders", 2)
	nope, offsets, beyond := record.TopicPartition{Topic: "nope"}, record.TopicPartition{Topic: "__consumer_offsets"}, record.TopicPartition{Topic: "orders", Partition: 2}
	for v := range int16(6) {
		p := beginTxn(t, addr, fmt.Sprint("adds", v))
		require.Equal(t, map[record.TopicPartition]Code{orders0: OperationNotAttempted, nope: UnknownTopicOrPartition}, p.add(v, orders0, nope))
		require.Equal(t, map[record.TopicPartition]Code{orders0: OperationNotAttempted, beyond: UnknownTopicOrPartition}, p.add(v, orders0, beyond))
		if v < 4 { // a broker adds the offsets topic for the groups
			require.Equal(t, map[record.TopicPartition]Code{orders0: OperationNotAttempted, offsets: TopicAuthorizationFailed}, p.add(v, orders0, offsets))
		}
		require.Equal(t, "Empty", p.describe().State, "what is refused has changed nothing")
		require.Equal(t, map[record.TopicPartition]Code{orders0: 0}, p.add(v, orders0))
		d := p.describe()
		require.Equal(t, []any{"Ongoing", "orders", []int32{0}}, []any{d.State, d.Topics[0].Topic, d.Topics[0].Partitions})
		require.WithinDuration(t, time.Now(), time.UnixMilli(d.StartTimestamp), time.Minute)
	}
}

// A broker of another implementation verifies partitions for many of its clients in one request.
func TestBrokersAskWhetherPartitionsAreInATransaction(t *testing.T) {
	_, addr := serve(t, Config{NoAutoCreate: true})
	createTopic(t, addr, "orders", 2)
	p, q := beginTxn(t, addr, "p"), beginTxn(t, addr, "q")
	p.addAll(orders0)
	for v := int16(4); v <= 5; v++ {
		req := &kmsg.AddPartitionsToTxnRequest{}
		for _, c := range []*txnClient{p, q} {
			req.Transactions = append(req.Transactions, kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: c.id, ProducerID: c.pid, ProducerEpoch: c.epoch, VerifyOnly: true,
				Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "orders", Partitions: []int32{0, 1}}}})
		}
		got := ask[*kmsg.AddPartitionsToTxnResponse](t, addr, v, req).Transactions
		require.Len(t, got, 2)
		var codes []Code
		for _, txn := range got {
			for _, part := range txn.Topics[0].Partitions {
				codes = append(codes, Code(part.ErrorCode))
			}
		}
		require.Equal(t, []Code{0, TransactionAbortable, TransactionAbortable, TransactionAbortable}, codes)
	}
	require.Equal(t, "Empty", q.describe().State, "who asks adds nothing")
}

func TestFencedProducersAreToldInTheCodesOfTheirVersion(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	old := beginTxn(t, addr, "id")
	beginTxn(t, addr, "id")
	from := func(known, v int16) Code {
		if v < known {
			return InvalidProducerEpoch
		}
		return ProducerFenced
	}
	for v := range int16(4) {
		require.Equal(t, from(2, v), old.add(v, orders0)[orders0], "add %d", v)
	}
	for v := range int16(6) {
		got := old.end(v, true)
		require.Equal(t, from(2, v), Code(got.ErrorCode), "end %d", v)
		require.Equal(t, []any{int64(-1), int16(-1)}, []any{got.ProducerID, got.ProducerEpoch})
	}
	for v := range int16(5) {
		got := ask[*kmsg.AddOffsetsToTxnResponse](t, addr, v, &kmsg.AddOffsetsToTxnRequest{TransactionalID: "id", ProducerID: old.pid, ProducerEpoch: old.epoch, Group: "g"})
		require.Equal(t, from(2, v), Code(got.ErrorCode), "offsets %d", v)
	}
	for v := int16(3); v <= 5; v++ {
		got := ask[*kmsg.InitProducerIDResponse](t, addr, v, old.initRequest(old.pid+1, old.epoch))
		require.Equal(t, from(4, v), Code(got.ErrorCode), "init %d", v)
	}
	for _, v := range []int16{3, 10, 11, 12} {
		require.Equal(t, InvalidProducerEpoch, Code(old.write(v, orders0, 0).ErrorCode), "write %d", v)
	}
	require.Zero(t, endOf(t, addr, 0), "a fenced producer writes nothing")
}

func TestWritesOutsideOfTheTransactionAreToldInTheCodesOfTheirVersion(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	p := beginTxn(t, addr, "id")
	for v, want := range map[int16]Code{3: InvalidTxnState, 10: InvalidTxnState, 11: TransactionAbortable} {
		got := p.write(v, orders0, 0)
		require.Equal(t, want, Code(got.ErrorCode), "version %d", v)
		require.EqualValues(t, -1, got.BaseOffset)
	}
	require.Zero(t, endOf(t, addr, 0))
	require.Equal(t, "Empty", p.describe().State)
	require.Zero(t, p.write(12, orders0, 0).ErrorCode, "from version 12 on the write adds its partition")
	require.Equal(t, "Ongoing", p.describe().State)
	require.EqualValues(t, 1, endOf(t, addr, 0))
	require.Zero(t, endOf(t, addr, 1))
}

func TestEndOfATransactionTellsTheNextEpochFromVersion5On(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	p := beginTxn(t, addr, "id")
	require.Zero(t, p.write(12, orders0, 0).ErrorCode)
	for range 2 { // a client repeats the request if the reply was lost
		got := p.end(5, true)
		require.Equal(t, []any{int16(0), p.pid, p.epoch + 1}, []any{got.ErrorCode, got.ProducerID, got.ProducerEpoch})
		p.awaitState("CompleteCommit")
	}
	require.EqualValues(t, 2, endOf(t, addr, 1), "record and marker")
	p.epoch++
	require.Zero(t, p.write(12, orders0, 0).ErrorCode)
	require.Zero(t, p.end(5, false).ErrorCode)
	p.awaitState("CompleteAbort")

	old := beginTxn(t, addr, "old")
	old.addAll(orders0)
	require.Zero(t, old.write(11, orders0, 0).ErrorCode)
	got := old.end(4, true)
	require.Equal(t, []any{int16(0), int64(-1), int16(-1)}, []any{got.ErrorCode, got.ProducerID, got.ProducerEpoch})
	old.awaitState("CompleteCommit")
	require.Equal(t, old.epoch, old.describe().ProducerEpoch)
}

func TestReadersOfCommittedRecordsAreToldWhatWasAborted(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	aborted, committed := beginTxn(t, addr, "aborted"), beginTxn(t, addr, "committed")
	require.Zero(t, aborted.write(12, orders0, 0).ErrorCode)
	require.Zero(t, committed.write(12, orders0, 0).ErrorCode)
	require.Zero(t, aborted.end(5, false).ErrorCode)
	aborted.awaitState("CompleteAbort")
	fetch := func(version int16, isolation int8) kmsg.FetchResponseTopicPartition {
		req, rt, p := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		req.MaxBytes, req.SessionEpoch, req.IsolationLevel = 1<<20, -1, isolation
		rt.Topic, p.PartitionMaxBytes, p.CurrentLeaderEpoch = "orders", 1<<20, -1
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		return ask[*kmsg.FetchResponse](t, addr, version, req).Topics[0].Partitions[0]
	}
	for _, v := range []int16{4, 11, 12} {
		got := fetch(v, 1)
		require.Equal(t, []int64{3, 1}, []int64{got.HighWatermark, got.LastStableOffset}, "the second transaction is open")
		require.Equal(t, []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: aborted.pid, FirstOffset: 0}}, got.AbortedTransactions)
		got = fetch(v, 0)
		require.Equal(t, []int64{3, 1}, []int64{got.HighWatermark, got.LastStableOffset})
		require.Nil(t, got.AbortedTransactions)
	}
	require.Zero(t, committed.end(5, true).ErrorCode)
	committed.awaitState("CompleteCommit")
	require.EqualValues(t, 4, fetch(12, 1).LastStableOffset)
}

func TestTransactionsAreListedByStateProducerAgeAndPattern(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	open, empty := beginTxn(t, addr, "shop-open"), beginTxn(t, addr, "shop-empty")
	open.addAll(orders0)
	list := func(version int16, edit func(*kmsg.ListTransactionsRequest)) *kmsg.ListTransactionsResponse {
		req := kmsg.NewPtrListTransactionsRequest()
		edit(req)
		return ask[*kmsg.ListTransactionsResponse](t, addr, version, req)
	}
	for _, c := range []struct {
		name string
		from int16
		edit func(*kmsg.ListTransactionsRequest)
		want []string
	}{
		{"all", 0, func(*kmsg.ListTransactionsRequest) {}, []string{"shop-empty Empty", "shop-open Ongoing"}},
		{"state", 0, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Ongoing", "Dead"} }, []string{"shop-open Ongoing"}},
		{"unknown state", 0, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"ongoing"} }, nil},
		{"producer", 0, func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{empty.pid, 1 << 50} }, []string{"shop-empty Empty"}},
		{"age", 1, func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 3_600_000 }, []string{"shop-empty Empty"}},
		{"pattern", 2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = text(".*-op.n") }, []string{"shop-open Ongoing"}},
		{"pattern of a part", 2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = text("shop") }, nil},
		{"pattern of two", 2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = text("x|shop-open") }, []string{"shop-open Ongoing"}},
		{"empty pattern", 2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = text("") }, []string{"shop-empty Empty", "shop-open Ongoing"}},
	} {
		for v := c.from; v <= 2; v++ {
			got := list(v, c.edit)
			require.Zero(t, got.ErrorCode)
			var names []string
			for _, s := range got.TransactionStates {
				names = append(names, s.TransactionalID+" "+s.TransactionState)
			}
			require.Equal(t, c.want, names, "%s, version %d", c.name, v)
		}
	}
	require.Equal(t, []string{"ongoing"}, list(2, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"ongoing", "ongoing"} }).UnknownStateFilters)
	for _, bad := range []string{"(", "a)(b", "(?=x)", "(abcdefghijklmnop){1000}"} {
		require.Equal(t, InvalidRegularExpression, Code(list(2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &bad }).ErrorCode))
	}
}

func TestOffsetsOfNoGroupAreOfPartitionsThatThereAre(t *testing.T) {
	_, addr := serve(t, Config{NoAutoCreate: true})
	createTopic(t, addr, "orders", 1)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	for _, name := range []string{"orders", "none"} {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic, rt.Partitions = name, []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 0}}
		req.Topics = append(req.Topics, rt)
	}
	for version := int16(0); version <= 5; version++ {
		got := ask[*kmsg.TxnOffsetCommitResponse](t, addr, version, req).Topics
		require.Equal(t, []Code{InvalidGroupID, UnknownTopicOrPartition}, []Code{Code(got[0].Partitions[0].ErrorCode), Code(got[1].Partitions[0].ErrorCode)})
	}
}

func TestTransactionsAreDescribedEachByItself(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 2)
	p := beginTxn(t, addr, "id")
	p.addAll(record.TopicPartition{Topic: "orders", Partition: 1}, orders0)
	got := ask[*kmsg.DescribeTransactionsResponse](t, addr, 0, &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"nobody", "id", ""}}).TransactionStates
	require.Equal(t, []Code{TransactionalIDNotFound, 0, InvalidRequest}, []Code{Code(got[0].ErrorCode), Code(got[1].ErrorCode), Code(got[2].ErrorCode)})
	require.Equal(t, []any{"Ongoing", int32(60_000), p.pid, p.epoch}, []any{got[1].State, got[1].TimeoutMillis, got[1].ProducerID, got[1].ProducerEpoch})
	require.Len(t, got[1].Topics, 1)
	require.Equal(t, []int32{0, 1}, got[1].Topics[0].Partitions)
}

func TestMarkersAreWrittenForWhoAsks(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	for v := int16(1); v <= 2; v++ {
		p := beginTxn(t, addr, fmt.Sprint("hangs", v))
		require.Zero(t, p.write(12, orders0, 0).ErrorCode)
		require.Less(t, endOf(t, addr, 1), endOf(t, addr, 0))
		mark := func(epoch int16, coordinator int32, version int8) []Code {
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, m.TransactionVersion = p.pid, epoch, coordinator, version
			m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "nope", Partitions: []int32{0}}, {Topic: "orders", Partitions: []int32{0, 9}}}
			got := ask[*kmsg.WriteTxnMarkersResponse](t, addr, v, &kmsg.WriteTxnMarkersRequest{Markers: []kmsg.WriteTxnMarkersRequestMarker{m}}).Markers[0]
			require.Equal(t, p.pid, got.ProducerID)
			return []Code{Code(got.Topics[0].Partitions[0].ErrorCode), Code(got.Topics[1].Partitions[0].ErrorCode), Code(got.Topics[1].Partitions[1].ErrorCode)}
		}
		if v == 2 { // this marker is of the previous transaction
			require.Equal(t, []Code{UnknownTopicOrPartition, InvalidProducerEpoch, UnknownTopicOrPartition}, mark(p.epoch, 7, 2))
		}
		require.Equal(t, []Code{UnknownTopicOrPartition, 0, UnknownTopicOrPartition}, mark(p.epoch, 7, 0))
		require.Equal(t, endOf(t, addr, 0), endOf(t, addr, 1), "nothing is open")
		require.Equal(t, []Code{UnknownTopicOrPartition, TransactionCoordinatorFenced, UnknownTopicOrPartition}, mark(p.epoch, 6, 0))
	}
}

func TestCoordinatorOfTransactionsIsAskedAtItsBroker(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	found := map[int32]string{} // an id for each coordinator
	for i := 0; len(found) < 3; i++ {
		id := fmt.Sprint("id", i)
		for v := int16(1); v <= 6; v++ {
			got := ask[*kmsg.FindCoordinatorResponse](t, b.addrs[1], v, &kmsg.FindCoordinatorRequest{CoordinatorKey: id, CoordinatorKeys: []string{id}, CoordinatorType: 1})
			node, host, port, code := got.NodeID, got.Host, got.Port, got.ErrorCode
			if v >= 4 {
				node, host, port, code = got.Coordinators[0].NodeID, got.Coordinators[0].Host, got.Coordinators[0].Port, got.Coordinators[0].ErrorCode
			}
			require.Zero(t, code)
			require.Equal(t, b.addrs[node], hostPort(host, port))
			found[node] = id
		}
	}
	for node, id := range found {
		for other, addr := range b.addrs {
			p := &txnClient{t: t, addr: addr, id: id}
			want := NotCoordinator
			if other == node {
				want = 0
			}
			require.Equal(t, want, Code(ask[*kmsg.InitProducerIDResponse](t, addr, 5, p.initRequest(-1, -1)).ErrorCode))
			require.Equal(t, want, Code(p.describe().ErrorCode))
			if want != 0 {
				require.Equal(t, want, Code(p.end(5, true).ErrorCode))
				require.Equal(t, want, p.add(3, orders0)[orders0])
			}
		}
	}
	for node, addr := range b.addrs {
		listed := ask[*kmsg.ListTransactionsResponse](t, addr, 2, kmsg.NewPtrListTransactionsRequest()).TransactionStates
		require.Len(t, listed, 1)
		require.Equal(t, found[node], listed[0].TransactionalID)
	}
}

func TestLevelOfTransactionsIsAdvertised(t *testing.T) {
	for _, c := range []struct {
		level int16
		caps  map[int16]int16
		want  int16
	}{{0, nil, 2}, {2, nil, 2}, {1, nil, 1}, {transaction.LevelZero, nil, 0}, {0, map[int16]int16{int16(EndTxn): 4}, 1}, {0, map[int16]int16{int16(Produce): 11}, 1},
		{0, map[int16]int16{int16(TxnOffsetCommit): NotServed}, 1}} {
		cluster, err := strata.Open(strata.Config{Transactions: transaction.Config{Version: c.level}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, cluster.Close()) })
		_, addr := serveCluster(t, cluster, Config{VersionCaps: c.caps})
		for v := range int16(5) {
			got := ask[*kmsg.ApiVersionsResponse](t, addr, v, &kmsg.ApiVersionsRequest{ClientSoftwareName: "test", ClientSoftwareVersion: "1"})
			var finalized []any
			for _, f := range got.FinalizedFeatures {
				finalized = append(finalized, f.Name, f.MinVersionLevel, f.MaxVersionLevel)
			}
			want := []any{"group.version", int16(1), int16(1), "share.version", int16(1), int16(1), "streams.version", int16(1), int16(1)}
			if c.want > 0 {
				want = append(want, "transaction.version", c.want, c.want)
			}
			if v < 3 {
				want = nil
			}
			require.Equal(t, want, finalized)
			require.Equal(t, v >= 3, got.FinalizedFeaturesEpoch >= 0)
			if v < 4 {
				require.Empty(t, got.SupportedFeatures, "older clients cannot read a lowest level of 0")
			} else {
				var names []string
				for _, f := range got.SupportedFeatures {
					names = append(names, f.Name)
					require.Zero(t, f.MinVersion)
				}
				require.Equal(t, []string{"group.version", "share.version", "streams.version", "transaction.version"}, names)
				require.Equal(t, max(c.want, got.SupportedFeatures[3].MaxVersion), got.SupportedFeatures[3].MaxVersion)
			}
		}
	}
}

func TestLevelOfTransactionsIsNotUpdated(t *testing.T) {
	_, addr := serve(t, Config{})
	update := func(version int16, feature string, level int16, kind int8) *kmsg.UpdateFeaturesResponse {
		req, u := kmsg.NewPtrUpdateFeaturesRequest(), kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = feature, level, kind, kind > 1
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		return ask[*kmsg.UpdateFeaturesResponse](t, addr, version, req)
	}
	for v := range int16(3) {
		for _, c := range []struct {
			feature string
			level   int16
			kind    int8
			want    Code
		}{{"transaction.version", 2, 1, 0}, {"transaction.version", 1, 1, InvalidUpdateVersion}, {"transaction.version", 1, 2, InvalidUpdateVersion},
			{"transaction.version", 3, 1, InvalidUpdateVersion}, {"transaction.version", -1, 1, InvalidUpdateVersion}, {"nonsense", 1, 1, InvalidUpdateVersion},
			{"group.version", 1, 1, 0}, {"group.version", 0, 2, InvalidUpdateVersion}, {"group.version", 2, 1, InvalidUpdateVersion}} {
			got := update(v, c.feature, c.level, c.kind)
			require.Equal(t, c.want, Code(got.ErrorCode), "%v in version %d", c, v)
			require.Equal(t, c.want == 0 && v < 2, len(got.Results) == 1)
			require.Equal(t, c.want != 0, got.ErrorMessage != nil)
		}
	}
}

// txnDialects are configurations of brokers that make franz-go use each version of the transaction
// protocol.
var txnDialects = map[string]Config{
	"now":               {},
	"before version 2":  {VersionCaps: map[int16]int16{int16(Produce): 11, int16(EndTxn): 4, int16(TxnOffsetCommit): 4}},
	"before KIP-360":    {VersionCaps: map[int16]int16{int16(Produce): 7, int16(EndTxn): 1, int16(TxnOffsetCommit): 2, int16(InitProducerID): 1, int16(AddPartitionsToTxn): 1, int16(AddOffsetsToTxn): 1}},
	"the oldest ones":   {VersionCaps: map[int16]int16{int16(Produce): 3, int16(EndTxn): 0, int16(TxnOffsetCommit): 0, int16(InitProducerID): 0, int16(AddPartitionsToTxn): 0, int16(AddOffsetsToTxn): 0, int16(FindCoordinator): 2}},
	"flexible versions": {VersionCaps: map[int16]int16{int16(Produce): 9, int16(EndTxn): 3, int16(TxnOffsetCommit): 3, int16(InitProducerID): 4, int16(AddPartitionsToTxn): 3, int16(AddOffsetsToTxn): 3}},
}

func TestFranzGoWritesInTransactionsOfEveryDialect(t *testing.T) {
	for name, cfg := range txnDialects {
		t.Run(name, func(t *testing.T) {
			_, addr := serve(t, cfg)
			createTopic(t, addr, "orders", 3)
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("id"), kgo.DefaultProduceTopic("orders"))
			require.NoError(t, err)
			defer cl.Close()
			for i := range 6 {
				require.NoError(t, cl.BeginTransaction())
				for j := range 10 {
					cl.Produce(t.Context(), &kgo.Record{Value: fmt.Appendf(nil, "%d-%d", i, j), Partition: int32(j % 3)}, nil)
				}
				require.NoError(t, cl.Flush(t.Context()))
				require.NoError(t, cl.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)))
			}
			read := map[string]bool{}
			r, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			require.NoError(t, err)
			defer r.Close()
			for len(read) < 30 {
				f := r.PollFetches(t.Context())
				require.NoError(t, f.Err())
				f.EachRecord(func(rec *kgo.Record) {
					require.False(t, read[string(rec.Value)], "%s came twice", rec.Value)
					require.Zero(t, (rec.Value[0]-'0')%2, "%s was aborted", rec.Value)
					read[string(rec.Value)] = true
				})
			}
		})
	}
}

// commitOffset commits offset 5 of partition 0 in the transaction.
func (p *txnClient) commitOffset(version int16, group string) Code {
	p.t.Helper()
	req, rt, rp := kmsg.NewPtrTxnOffsetCommitRequest(), kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, rt.Topic, rp.Offset = p.id, p.pid, p.epoch, group, "orders", 5
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return Code(ask[*kmsg.TxnOffsetCommitResponse](p.t, p.addr, version, req).Topics[0].Partitions[0].ErrorCode)
}

// committedOffset returns the committed offset of partition 0 and its error code.
func committedOffset(t *testing.T, addr string, version int16, group string, stable bool) (int64, Code) {
	t.Helper()
	req, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	req.Group, g.Group, req.RequireStable = group, group, stable
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", Partitions: []int32{0}}}
	req.Groups = append(req.Groups, g)
	got := ask[*kmsg.OffsetFetchResponse](t, addr, version, req)
	if version >= 8 {
		p := got.Groups[0].Topics[0].Partitions[0]
		return p.Offset, Code(p.ErrorCode)
	}
	p := got.Topics[0].Partitions[0]
	return p.Offset, Code(p.ErrorCode)
}

func TestOffsetsOfATransactionCountWhenItIsCommitted(t *testing.T) {
	_, addr := serve(t, Config{})
	createTopic(t, addr, "orders", 1)
	find := func(group string) {
		require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: group}).ErrorCode)
	}
	for v := range int16(6) {
		p, group := beginTxn(t, addr, fmt.Sprint("id", v)), fmt.Sprint("group", v)
		find(group)
		require.Equal(t, InvalidGroupID, p.commitOffset(v, ""))
		if v < 5 { // clients of these versions send AddOffsetsToTxn first
			want := InvalidTxnState
			if v == 4 {
				want = TransactionAbortable
			}
			require.Equal(t, want, p.commitOffset(v, group))
			require.Zero(t, ask[*kmsg.AddOffsetsToTxnResponse](t, addr, min(v, 4), &kmsg.AddOffsetsToTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Group: group}).ErrorCode)
		}
		require.Zero(t, p.commitOffset(v, group), "version %d", v)
		require.Equal(t, "__consumer_offsets", p.describe().Topics[0].Topic)
		for fv := int16(1); fv <= 9; fv++ {
			want := UnstableOffsetCommit
			if fv < 7 {
				want = 0
			}
			offset, code := committedOffset(t, addr, fv, group, true)
			require.Equal(t, []any{int64(-1), want}, []any{offset, code}, "fetched in version %d", fv)
			offset, code = committedOffset(t, addr, fv, group, false)
			require.Equal(t, []any{int64(-1), Code(0)}, []any{offset, code})
		}
		if v == 5 {
			require.Zero(t, p.end(5, true).ErrorCode)
		} else {
			require.Zero(t, p.end(4, true).ErrorCode)
		}
		p.awaitState("CompleteCommit")
		offset, code := committedOffset(t, addr, 8, group, true)
		require.Equal(t, []any{int64(5), Code(0)}, []any{offset, code})
	}
	fenced := beginTxn(t, addr, "fenced")
	beginTxn(t, addr, "fenced")
	for v := range int16(6) {
		require.Equal(t, InvalidProducerEpoch, fenced.commitOffset(v, "group0"), "version %d", v)
	}
}

func TestTransactionalIDsOfClientsHaveABudget(t *testing.T) {
	_, addr := serve(t, Config{Limits: Limits{RequestBytes: 1 << 20, InFlightBytes: 2 << 20}})
	createTopic(t, addr, "orders", 1)
	createTopic(t, addr, "many", 100)
	p := beginTxn(t, addr, "id")
	long := strings.Repeat("i", 30<<10)
	made, code := 0, Code(0)
	for ; code == 0 && made < 100; made++ {
		code = Code(ask[*kmsg.InitProducerIDResponse](t, addr, 4, (&txnClient{id: fmt.Sprint(long, made)}).initRequest(-1, -1)).ErrorCode)
	}
	require.Equal(t, PolicyViolation, code, "no error that clients repeat")
	require.InDelta(t, 1<<20/(31<<10), made, 2)
	require.Zero(t, ask[*kmsg.InitProducerIDResponse](t, addr, 4, p.initRequest(p.pid, p.epoch)).ErrorCode, "an id that exists")
	p = beginTxn(t, addr, "id")
	for code = 0; code == 0 && made < 2000; made++ { // fills the rest
		code = Code(ask[*kmsg.InitProducerIDResponse](t, addr, 4, (&txnClient{id: fmt.Sprint(made)}).initRequest(-1, -1)).ErrorCode)
	}
	require.Equal(t, PolicyViolation, code)

	refused := map[Code]bool{}
	for i := range int32(100) {
		refused[p.add(3, record.TopicPartition{Topic: "many", Partition: i})[record.TopicPartition{Topic: "many", Partition: i}]] = true
	}
	require.Equal(t, map[Code]bool{0: true, PolicyViolation: true}, refused)
	add := &kmsg.AddOffsetsToTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Group: "g"}
	require.Equal(t, PolicyViolation, Code(ask[*kmsg.AddOffsetsToTxnResponse](t, addr, 3, add).ErrorCode))
	require.Equal(t, TransactionAbortable, Code(ask[*kmsg.AddOffsetsToTxnResponse](t, addr, 4, add).ErrorCode))
	require.Equal(t, TransactionAbortable, Code(p.write(12, orders0, 0).ErrorCode), "the write would add its partition")
	require.Zero(t, p.end(3, false).ErrorCode)
}
