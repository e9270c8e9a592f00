package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafkadir"
	"github.com/stratalog/strata/record"
)

// Directories change hands during transactions: a real Kafka takes over Strata's, and Strata
// Kafka's.

// The topic and the group in a directory that changes hands, and the partitions of both
// coordinators' topics on both sides.
const (
	movedTopic, movedGroup = "moved", "moved-group"
	// Topic and group of the transaction that no producer ends.
	movedLate, lateGroup = "moved-late", "moved-late-group"
	movedTimeout         = 5 * time.Second // of that transaction
	movedOffsets         = 4
)

// A mover writes transactions by hand, so that a producer can continue after its directory changed
// hands.
type mover struct {
	*txnScript
	sequences map[movedTo]int32
	// Adds partitions to a transaction before it writes, as before transaction.version 2.
	adds bool
}

// movedTo is the key of a sequence.
type movedTo struct {
	producer  txnIdentity
	topic     string
	partition int32
}

func newMover(t *testing.T, k target) *mover {
	return &mover{&txnScript{transcript: newTranscript(t, k)}, map[movedTo]int32{}, false}
}

// movers are the producers at the moment when the directory changes hands.
type movers struct{ committed, aborted, open, late, decided txnIdentity }

// init initializes a producer for an id, with a timeout.
func (m *mover) init(id string, timeout time.Duration) txnIdentity {
	m.t.Helper()
	req := initTxn(txnIdentity{id, -1, -1}, int32(timeout.Milliseconds()))
	got := m.until(4, req, func(r kmsg.Response) bool { return r.(*kmsg.InitProducerIDResponse).ErrorCode == 0 }).(*kmsg.InitProducerIDResponse)
	return txnIdentity{id, got.ProducerID, got.ProducerEpoch}
}

// coordinators returns when groups and transactions have coordinators, and so their topics exist.
func (m *mover) coordinators() {
	m.t.Helper()
	for kind, key := range []string{movedGroup, "first"} {
		find := &kmsg.FindCoordinatorRequest{CoordinatorKey: key, CoordinatorType: int8(kind)}
		m.until(3, find, func(r kmsg.Response) bool { return r.(*kmsg.FindCoordinatorResponse).ErrorCode == 0 })
	}
	m.begin("first")
}

// write writes values as one batch: of a transaction, unless p is the zero identity.
func (m *mover) write(p txnIdentity, topic string, partition int32, values ...string) {
	m.t.Helper()
	var b record.Builder
	if p.id != "" {
		to := movedTo{p, topic, partition}
		b.SetProducer(p.pid, p.epoch, m.sequences[to])
		b.SetTransactional(true)
		m.sequences[to] += int32(len(values))
	}
	for _, v := range values {
		b.AppendKV(time.Now().UnixMilli(), []byte(p.id), []byte(v), nil)
	}
	batch, err := b.Build(record.None)
	require.NoError(m.t, err)
	req := produceTxn(m.t, p, topic, partition, 0)
	version := int16(12)
	if req.Topics[0].Partitions[0].Records = batch; p.id == "" {
		req.TransactionID = nil
	}
	if m.adds {
		version = 11
	}
	if m.adds && p.id != "" {
		m.until(3, addTxn(p, topic, partition), func(r kmsg.Response) bool {
			return r.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode == 0
		})
	}
	m.until(version, req, func(r kmsg.Response) bool { return r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 })
}

// offset commits an offset of a group in a transaction.
func (m *mover) offset(p txnIdentity, group string, partition int32, offset int64) {
	m.t.Helper()
	version := int16(5)
	if m.adds {
		version = 3
		m.until(3, addGroup(p, group), func(r kmsg.Response) bool { return r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode == 0 })
	}
	m.until(version, commitTxn(p, group, movedTopic, offset, partition), func(r kmsg.Response) bool {
		return r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0
	})
}

// end ends a transaction, and returns the identity for the next one.
func (m *mover) end(p txnIdentity, commit bool) txnIdentity {
	m.t.Helper()
	version := int16(5)
	if m.adds {
		version = 4
	}
	got := m.until(version, endTxn(p, commit), func(r kmsg.Response) bool { return r.(*kmsg.EndTxnResponse).ErrorCode == 0 }).(*kmsg.EndTxnResponse)
	m.settled(p)
	if m.adds {
		return p
	}
	return txnIdentity{p.id, got.ProducerID, got.ProducerEpoch}
}

// fill writes transactions of every kind. A committed one lies inside an aborted one. An open one
// has committed and plain records after it. Another open one has the timeout movedTimeout. A
// committed one is the last in its partition and in the coordinator's log.
func (m *mover) fill() (ps movers) {
	m.coordinators()
	m.ready(movedTopic)
	createNamed(m.t, m.k, movedLate, 2)
	minute := 10 * time.Minute
	ps.committed, ps.aborted, ps.open = m.init("committed", minute), m.init("aborted", minute), m.init("open", minute)
	ps.decided = m.init("decided", minute)
	m.write(ps.aborted, movedTopic, 0, "aborted 1", "aborted 2")
	m.write(ps.committed, movedTopic, 0, "committed 1", "committed 2")
	m.write(ps.committed, movedTopic, 1, "committed 3")
	m.write(txnIdentity{}, movedTopic, 0, "plain 1")
	m.offset(ps.committed, movedGroup, 0, 11)
	m.offset(ps.committed, movedGroup, 1, 12)
	ps.committed = m.end(ps.committed, true)
	m.write(ps.aborted, movedTopic, 0, "aborted 3")
	m.offset(ps.aborted, movedGroup, 0, 99)
	ps.aborted = m.end(ps.aborted, false)

	m.write(ps.open, movedTopic, 1, "open 1")
	m.write(ps.open, movedTopic, 0, "open 2", "open 3")
	m.offset(ps.open, movedGroup, 1, 13)
	m.write(ps.committed, movedTopic, 0, "committed 4")
	ps.committed = m.end(ps.committed, true)
	m.write(txnIdentity{}, movedTopic, 1, "plain 2")
	ps.late = m.init("late", movedTimeout)
	m.write(ps.late, movedLate, 0, "late 1")
	m.offset(ps.late, lateGroup, 0, 98)
	m.write(ps.decided, movedLate, 1, "decided 1")
	ps.decided = m.end(ps.decided, true)
	m.until(0, describeTxn("late"), func(r kmsg.Response) bool {
		return r.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State == "Ongoing"
	})
	return ps
}

// shows returns all answers of a broker about the records that fill wrote.
func (m *mover) shows() map[string]string {
	m.t.Helper()
	out := map[string]string{}
	note := func(what string, version int16, req kmsg.Request, ready func(kmsg.Response) bool) {
		out[what] = m.plain(m.until(version, req, ready))
	}
	for _, id := range []string{"committed", "aborted", "open", "decided"} {
		note("describe "+id, 0, describeTxn(id), func(r kmsg.Response) bool {
			s := r.(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
			return s.ErrorCode == 0 && !strings.HasPrefix(s.State, "Prepare")
		})
	}
	for isolation := range int8(2) {
		note(fmt.Sprint("ends ", isolation), 2, listEnd(movedTopic, isolation), func(r kmsg.Response) bool {
			ps := r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions
			return ps[0].ErrorCode == 0 && ps[1].ErrorCode == 0
		})
		for partition := range int32(2) {
			req := fetchTxn(movedTopic, isolation, 0)
			req.Topics[0].Partitions[0].Partition = partition
			note(fmt.Sprint("records ", isolation, " of ", partition), 11, req, func(r kmsg.Response) bool {
				p := r.(*kmsg.FetchResponse).Topics[0].Partitions[0]
				return p.ErrorCode == 0 && len(p.RecordBatches) > 0
			})
		}
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: movedTopic, Partitions: []int32{0, 1}}}
	note("producers", 0, producers, func(kmsg.Response) bool { return true })
	for _, stable := range []bool{false, true} {
		note(fmt.Sprint("offsets, stable ", stable), 8, fetchOf(movedGroup, movedTopic, stable), func(r kmsg.Response) bool {
			return r.(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode == 0
		})
	}
	return out
}

// fetchOf returns an OffsetFetch of a group.
func fetchOf(group, topic string, stable bool) *kmsg.OffsetFetchRequest {
	r, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	r.RequireStable, g.Group = stable, group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0, 1}}}
	r.Groups = append(r.Groups, g)
	return r
}

// goOn ends the transactions that were open when the directory changed hands: one by its producer,
// another by its timeout. Then every producer writes again.
func (m *mover) goOn(ps movers) {
	ps.open = m.end(ps.open, true)
	m.until(0, describeTxn("late"), func(r kmsg.Response) bool {
		return r.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State == "CompleteAbort"
	})
	late := endTxn(ps.late, true)
	if late.SetVersion(5); m.adds {
		late.SetVersion(4)
	}
	resp, err := m.exchange(late)
	require.NoError(m.t, err)
	require.NotZero(m.t, resp.(*kmsg.EndTxnResponse).ErrorCode, "the producer that took too long commits nothing")

	committed := []string{"committed 1", "committed 2", "plain 1", "open 2", "open 3", "committed 4"}
	require.Equal(m.t, committed, readAllCommitted(m.t, m.k, movedTopic))
	m.requireOffsets(movedGroup, movedTopic, 11, 13)
	m.requireOffsets(lateGroup, movedLate, -1, -1)
	require.Empty(m.t, readAllCommitted(m.t, m.k, movedLate), "late")
	m.until(2, listEnd(movedLate, 1), func(r kmsg.Response) bool { // one record and its marker
		return r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[1].Offset == 2
	})

	// This producer did not get the answer that its transaction has ended.
	m.write(ps.committed, movedTopic, 0, "next 1")
	m.end(ps.committed, true)
	for _, id := range []string{"aborted", "open", "late"} { // their producers get a new epoch
		p := m.init(id, time.Minute)
		m.write(p, movedTopic, 0, "next "+id)
		m.end(p, id != "aborted")
	}
	require.Equal(m.t, append(committed, "next 1", "next open", "next late"), readAllCommitted(m.t, m.k, movedTopic))
}

// requireOffsets waits until no offset of a group is pending, and checks them.
func (m *mover) requireOffsets(group, topic string, want ...int64) {
	m.t.Helper()
	stable := m.until(8, fetchOf(group, topic, true), func(r kmsg.Response) bool {
		ps := r.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions
		return ps[0].ErrorCode == 0 && ps[1].ErrorCode == 0
	}).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions
	require.Equal(m.t, want, []int64{stable[0].Offset, stable[1].Offset}, group)
}

// newMoved gives a Strata cluster the settings of Kafka's.
func newMoved(cfg *strata.Config) {
	cfg.Group.OffsetsPartitions, cfg.Transactions.Topic.Partitions = movedOffsets, 1
}

// forms runs subtests named by ends. The first always runs, the others with STRATA_LONG, since
// each starts Kafka once or twice.
func forms(t *testing.T, ends []string, run func(t *testing.T, end string)) {
	for i, end := range ends {
		t.Run(end, func(t *testing.T) {
			if t.Parallel(); i > 0 && os.Getenv("STRATA_LONG") == "" {
				t.Skip("STRATA_LONG is not set")
			}
			run(t, end)
		})
	}
}

// TestKafkaTakesOverOurTransactions has Kafka open a Strata directory. One cluster was stopped,
// with its indexes and producer snapshots. The others were killed, the last one between the
// decision of a transaction and its marker.
func TestKafkaTakesOverOurTransactions(t *testing.T) {
	t.Parallel()
	forms(t, []string{"stopped", "killed", "killed with a decision"}, func(t *testing.T, end string) {
		kit := kafkaKit(t)
		ks, stop := startStrataWith(t, 1, newMoved)
		m := newMover(t, ks[0])
		ps := m.fill()
		want, dir := m.shows(), ks[0].dir
		if end != "stopped" {
			dir = filepath.Join(t.TempDir(), "killed") // as a process that is killed now leaves it
			require.NoError(t, os.CopyFS(dir, os.DirFS(ks[0].dir)))
		}
		stop()
		if end == "killed with a decision" {
			cutDecided(t, dir)
		}
		adopted := handOver(t, kit, dir, "transaction.abort.timed.out.transaction.cleanup.interval.ms=200")
		m = newMoverOf(m, t, adopted)
		require.Equal(t, want, m.shows())
		m.goOn(ps)
	})
}

// newMoverOf continues m's transactions on the side that has taken over.
func newMoverOf(m *mover, t *testing.T, k target) *mover {
	next := newMover(t, k)
	next.sequences, next.adds = m.sequences, m.adds
	return next
}

// TestWeTakeOverKafkasTransactions has Strata open a directory of Kafka's.
func TestWeTakeOverKafkasTransactions(t *testing.T) {
	t.Parallel()
	forms(t, []string{"killed", "stopped", "killed with a decision", "stopped 3.9.1", "killed 3.9.1"}, func(t *testing.T, end string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		release := ""
		if of, ok := strings.CutSuffix(end, " 3.9.1"); ok {
			end, release = of, "3.9.1"
		}
		// Its coordinator does not abort the transaction that times out.
		b, err := kafkaRelease(t, release).Start(ctx, t.TempDir(), "transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000")
		require.NoError(t, err)
		defer b.Stop()
		m := newMover(t, target{kind: "kafka", addr: b.Addr, dir: b.Dir})
		m.adds = release != ""
		ps := m.fill()
		want := m.shows()
		if end == "stopped" {
			b.Stop()
		} else {
			b.Kill()
		}
		if end == "killed with a decision" {
			cutDecided(t, b.Dir)
		}
		m = newMoverOf(m, t, takeOver(t, b.Dir))
		require.Equal(t, want, m.shows())
		m.goOn(ps)
	})
}

// cutDecided removes the marker of the transaction "decided" and the record of its completion, as
// if the coordinator had died right after its decision.
func cutDecided(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{movedLate + "-1", "__transaction_state-0"} {
		files, err := filepath.Glob(filepath.Join(partitionDir(t, dir, name), "*.log"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		content, err := os.ReadFile(files[0])
		require.NoError(t, err)
		last, end := 0, 0
		for end < len(content) && content[end+16] != 0 { // reserved space has no magic
			_, n, err := record.Parse(content[end:])
			require.NoError(t, err)
			last, end = end, end+n
		}
		require.NoError(t, os.Truncate(files[0], int64(last)))
	}
}

// takeOver has a Strata cluster import the directory of a Kafka broker, and returns it. Kafka's
// directory stays as it is.
func takeOver(t *testing.T, theirs string) target {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "imported")
	_, err := kafkadir.Import(within(t), kafkadir.ImportConfig{From: []string{theirs}, Dir: dir})
	require.NoError(t, err)
	ks, _ := startStrataWith(t, 1, func(cfg *strata.Config) { newMoved(cfg); cfg.Dir = dir })
	return ks[0]
}
