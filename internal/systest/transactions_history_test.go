package systest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// A txnHistory lists the requests of transactional clients, their results and the records they
// read, in order. Storms, crashes and killed processes are checked against it: their outcome must
// follow from the history.
type txnHistory struct {
	mu     sync.Mutex // guards events
	events []txnEvent
}

// A txnEvent has one of its fields set.
type txnEvent struct {
	asked  *attempt
	told   *attempt
	read   *txnRead
	offset *txnOffset
}

// An attempt is a transaction whose producer sends EndTxn. All of its writes are acknowledged, or
// will be if it commits. A transaction without EndTxn is in no history, and none of its records
// may be seen.
type attempt struct {
	name   string
	commit bool
	// Each with its partition, see valueIn; none is written twice.
	values []string
	group  string                             // whose offsets it moves
	moves  map[record.TopicPartition][2]int64 // from, to
}

// A txnRead has the values that a ReadCommitted reader found, from the n-th value of a partition
// on, and the last stable offset.
type txnRead struct {
	of     record.TopicPartition
	n      int
	values []string
	stable int64 // -1: unknown
}

// A txnOffset is a group's committed offset, fetched while none was pending.
type txnOffset struct {
	group  string
	of     record.TopicPartition
	offset int64
}

func nameOf(of record.TopicPartition) string { return fmt.Sprintf("%s-%d", of.Topic, of.Partition) }

func valueIn(value string, of record.TopicPartition) string { return value + " in " + nameOf(of) }

func (h *txnHistory) add(e txnEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// until returns the number of events.
func (h *txnHistory) until() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// cut returns the history of clients that died with their cluster between two moments. Results
// before told have happened. Requests between told and asked may have taken effect.
func (h *txnHistory) cut(told, asked int) *txnHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := &txnHistory{events: slices.Clone(h.events[:told])}
	for _, e := range h.events[told:asked] {
		if e.asked != nil {
			left.events = append(left.events, e)
		}
	}
	return left
}

// A txnOutcome is the state at the end.
type txnOutcome struct {
	values  map[record.TopicPartition][]string // that a ReadCommitted reader finds
	offsets map[string]record.Offsets          // by group
	hanging []string                           // transactions that have not ended
}

// check returns the ways in which the outcome contradicts the history.
func (h *txnHistory) check(x txnOutcome) (wrong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, what := range x.hanging {
		fail("hanging: %s", what)
	}
	seen := map[string]int{}
	for of, values := range x.values {
		for _, v := range values {
			seen[valueIn(v, of)]++
		}
	}
	for v, n := range seen {
		if n > 1 {
			fail("doubled: %s is there %d times", v, n)
		}
	}
	// By group, of transactions whose records are there.
	moved := map[string]map[record.TopicPartition][][2]int64{}
	told, stable := map[*attempt]bool{}, map[record.TopicPartition]int64{}
	var asked []*attempt
	for _, e := range h.events {
		switch {
		case e.asked != nil:
			asked = append(asked, e.asked)
		case e.told != nil:
			told[e.told] = true
		case e.read != nil:
			now := x.values[e.read.of]
			if from, to := e.read.n, e.read.n+len(e.read.values); len(now) < to || !slices.Equal(now[from:to], e.read.values) {
				fail("unread: %v was read from value %d of %s on, which is not there", e.read.values, from, nameOf(e.read.of))
			}
			if e.read.stable >= 0 && e.read.stable < stable[e.read.of] {
				fail("unstable: the last stable offset of %s goes back from %d to %d", nameOf(e.read.of), stable[e.read.of], e.read.stable)
			}
			stable[e.read.of] = max(stable[e.read.of], e.read.stable)
		case e.offset != nil:
			if now := x.offsets[e.offset.group][e.offset.of]; now < e.offset.offset {
				fail("offset: %s was told %d of %s, and now is told %d", e.offset.group, e.offset.offset, nameOf(e.offset.of), now)
			}
		}
	}
	for _, a := range asked {
		there := 0
		for _, v := range a.values {
			if seen[v] > 0 {
				there++
			}
			delete(seen, v)
		}
		switch {
		case !a.commit && there > 0:
			fail("aborted: %d records of %s are there", there, a.name)
		case there > 0 && there < len(a.values):
			fail("torn: %d of %d records of %s are there", there, len(a.values), a.name)
		case a.commit && told[a] && there == 0:
			fail("lost: nothing of %s is there", a.name)
		}
		for of, fromTo := range a.moves {
			if there > 0 {
				if moved[a.group] == nil {
					moved[a.group] = map[record.TopicPartition][][2]int64{}
				}
				moved[a.group][of] = append(moved[a.group][of], fromTo)
			}
		}
	}
	for v := range seen {
		fail("aborted: %s is there, and nobody asked to commit it", v)
	}
	for g, offsets := range x.offsets {
		if moved[g] == nil {
			moved[g] = map[record.TopicPartition][][2]int64{}
		}
		for of := range offsets {
			moved[g][of] = append([][2]int64(nil), moved[g][of]...)
		}
	}
	for g, partitions := range moved {
		for of, ranges := range partitions {
			slices.SortFunc(ranges, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
			next := int64(0)
			for _, r := range ranges {
				if r[0] != next {
					fail("offset: output of %s for %s goes on at %d behind %d", g, nameOf(of), r[0], next)
				}
				next = r[1]
			}
			if offset := x.offsets[g][of]; offset != next {
				fail("offset: that of %s in %s is %d, its output is of %d", g, nameOf(of), offset, next)
			}
		}
	}
	return wrong
}

// A committedReader reads a partition up to its last stable offset.
type committedReader struct {
	of     record.TopicPartition
	next   int64
	values []string
}

func (r *committedReader) read(ctx context.Context, c *strata.Cluster) error {
	for {
		resp, err := c.Fetch(ctx, &partition.FetchRequest{Isolation: partition.ReadCommitted,
			Partitions: []partition.FetchPartition{{TopicPartition: r.of, Offset: r.next, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
		if err != nil {
			return err
		}
		got := resp.Partitions[0]
		if got.Err != nil || len(got.Bytes) == 0 {
			return got.Err
		}
		slices.SortFunc(got.Aborted, func(a, b partition.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
		aborted := map[int64]bool{} // by producer
		for p := got.Bytes; len(p) > 0; {
			b, n, err := record.Parse(p)
			if err != nil {
				return err
			}
			for len(got.Aborted) > 0 && got.Aborted[0].FirstOffset <= b.LastOffset() {
				aborted[got.Aborted[0].ProducerID], got.Aborted = true, got.Aborted[1:]
			}
			switch {
			case b.IsControl():
				if kind, _, err := b.Control(); err != nil || kind == record.ControlAbort {
					delete(aborted, b.ProducerID)
				}
			case !aborted[b.ProducerID]:
				for rec, err := range b.All() {
					if err != nil {
						return err
					}
					if rec.Offset >= r.next {
						r.values = append(r.values, string(rec.Value))
					}
				}
			}
			r.next, p = max(r.next, b.NextOffset()), p[n:]
		}
	}
}

// look reads new values, and adds them to the history.
func (r *committedReader) look(ctx context.Context, c *strata.Cluster, h *txnHistory) {
	n := len(r.values)
	_ = r.read(ctx, c)
	got, err := c.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{r.of: partition.Latest}, partition.ReadCommitted)
	e := &txnRead{of: r.of, n: n, values: slices.Clone(r.values[n:]), stable: -1}
	if now := got[r.of]; err == nil && now.Err == nil {
		e.stable = now.Offset
	}
	h.add(txnEvent{read: e})
}

// outcome returns the values in partitions, the offsets of groups in "in", and all hanging
// transactions.
func outcome(t *testing.T, c *strata.Cluster, out []record.TopicPartition, groups ...string) txnOutcome {
	t.Helper()
	x := txnOutcome{values: map[record.TopicPartition][]string{}, offsets: map[string]record.Offsets{}}
	hangs := func(format string, args ...any) { x.hanging = append(x.hanging, fmt.Sprintf(format, args...)) }
	for _, of := range out {
		r := &committedReader{of: of}
		require.NoError(t, r.read(t.Context(), c))
		x.values[of] = r.values
	}
	topics, err := c.Topics(t.Context())
	require.NoError(t, err)
	for _, info := range topics {
		if info.Name == "__transaction_state" {
			continue
		}
		for p := range info.Partitions {
			if stable, end := stableEnd(t, c, at(info.Name, int32(p))); stable != end {
				hangs("%s-%d is open from %d on", info.Name, p, stable)
			}
		}
	}
	for _, g := range groups {
		got, unstable, err := c.Backend().FetchStableOffsets(t.Context(), g, nil)
		require.NoError(t, err)
		for of := range unstable {
			hangs("the offset of %s in %s is pending", g, nameOf(of))
		}
		x.offsets[g] = record.Offsets{}
		for of, committed := range got {
			x.offsets[g][of] = committed.Offset
		}
	}
	ids, err := c.Transactions(t.Context())
	require.NoError(t, err)
	for _, d := range ids {
		if d.State.Prepared() || d.State.String() == "Ongoing" {
			hangs("%s is %v", d.ID, d.State)
		}
	}
	if owed := c.Stats().Transactions.MarkersOwed; owed > 0 {
		hangs("%d markers are owed", owed)
	}
	return x
}

// check finds each kind of contradiction between history and outcome, and none if they agree.
func TestHistoryOfTransactionsFindsWhatCannotBe(t *testing.T) {
	a, b, in := at("out", 0), at("out", 1), at("in", 0)
	one := &attempt{name: "one", commit: true, values: []string{valueIn("1a", a), valueIn("1b", b)}, group: "g", moves: map[record.TopicPartition][2]int64{in: {0, 2}}}
	two := &attempt{name: "two", commit: true, values: []string{valueIn("2a", a)}, group: "g", moves: map[record.TopicPartition][2]int64{in: {2, 3}}}
	not := &attempt{name: "not", values: []string{valueIn("0b", b)}}
	events := []txnEvent{
		{asked: not}, {told: not}, {asked: one}, {told: one},
		{read: &txnRead{of: a, values: []string{"1a"}, stable: 2}}, {offset: &txnOffset{"g", in, 2}}, {asked: two},
	}
	right := func() txnOutcome {
		return txnOutcome{values: map[record.TopicPartition][]string{a: {"1a"}, b: {"1b"}}, offsets: map[string]record.Offsets{"g": {in: 2}}}
	}
	check := func(x txnOutcome, more ...txnEvent) []string {
		return (&txnHistory{events: append(slices.Clone(events), more...)}).check(x)
	}
	require.Empty(t, check(right()))
	done := right()
	done.values[a], done.offsets["g"][in] = []string{"1a", "2a"}, 3
	require.Empty(t, check(done), "nobody was told what became of it")
	require.Empty(t, check(done, txnEvent{told: two}))

	for name, tc := range map[string]struct {
		change func(x txnOutcome)
		more   []txnEvent
		want   []string // in this order
	}{
		"aborted":        {change: func(x txnOutcome) { x.values[b] = append(x.values[b], "0b") }, want: []string{"aborted: 1 records of not are there"}},
		"never ended":    {change: func(x txnOutcome) { x.values[b] = append(x.values[b], "9b") }, want: []string{"aborted: 9b in out-1 is there, and nobody asked to commit it"}},
		"torn":           {change: func(x txnOutcome) { x.values[b] = nil }, want: []string{"torn: 1 of 2 records of one are there"}},
		"doubled":        {change: func(x txnOutcome) { x.values[b] = []string{"1b", "1b"} }, want: []string{"doubled: 1b in out-1 is there 2 times"}},
		"lost":           {more: []txnEvent{{told: two}}, want: []string{"lost: nothing of two is there"}},
		"read and gone":  {more: []txnEvent{{read: &txnRead{of: a, n: 1, values: []string{"2a"}, stable: 3}}}, want: []string{"unread: [2a] was read from value 1 of out-0 on, which is not there"}},
		"read elsewhere": {change: func(x txnOutcome) { x.values[a] = []string{"2a", "1a"}; x.offsets["g"][in] = 3 }, want: []string{"unread: [1a] was read from value 0 of out-0 on, which is not there"}},
		"stable":         {more: []txnEvent{{read: &txnRead{of: a, stable: 1}}}, want: []string{"unstable: the last stable offset of out-0 goes back from 2 to 1"}},
		"offset too far": {change: func(x txnOutcome) { x.offsets["g"][in] = 3 }, want: []string{"offset: that of g in in-0 is 3, its output is of 2"}},
		"offset of none": {change: func(x txnOutcome) { x.offsets["h"] = record.Offsets{in: 1} }, want: []string{"offset: that of h in in-0 is 1, its output is of 0"}},
		"offset is gone": {change: func(x txnOutcome) { x.offsets["g"][in] = 0 }, want: []string{"offset: g was told 2 of in-0, and now is told 0", "offset: that of g in in-0 is 0, its output is of 2"}},
		"piece left out": {change: func(x txnOutcome) { x.values[a], x.values[b], x.offsets["g"][in] = []string{"2a"}, nil, 3 }, want: []string{"unread: [1a] was read from value 0 of out-0 on, which is not there", "lost: nothing of one is there", "offset: output of g for in-0 goes on at 2 behind 0"}},
	} {
		x := right()
		if tc.change != nil {
			tc.change(x)
		}
		require.Equal(t, tc.want, check(x, tc.more...), name)
	}
	x := right()
	x.hanging = []string{"out-0 is open from 2 on"}
	require.Equal(t, []string{"hanging: out-0 is open from 2 on"}, check(x))

	h := &txnHistory{events: events}
	require.Equal(t, events[:3], h.cut(3, 3).events)
	require.Equal(t, []txnEvent{{asked: not}, {asked: one}, {asked: two}}, h.cut(1, len(events)).events, "what was not told may be so nevertheless")
}

// A replaced coordinator that has not noticed its replacement sends a marker again. Before version
// 2 only the coordinator epoch distinguishes it from a marker of the producer's next transaction.
func TestMarkerOfACoordinatorThatWasReplacedEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3, Group: group.Config{OffsetsPartitions: 1},
			Transactions: transaction.Config{Version: transaction.LevelZero, Topic: transaction.TopicConfig{Partitions: 1}}})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		for _, name := range []string{"in", "out"} {
			require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: 2, ReplicationFactor: 3}))
		}
		var h txnHistory
		p, in, out := newTxnClient(t, c, "w", 0), at("in", 0), []record.TopicPartition{at("out", 0), at("out", 1)}
		who := transaction.AddRequest{ID: "w", Producer: p.p, Partitions: out}
		write := func(name string, piece int64, commit bool) *attempt {
			a := &attempt{name: name, commit: commit, group: "g", moves: map[record.TopicPartition][2]int64{in: {piece, piece + 1}}}
			require.NoError(t, c.TransactionCoordinator().AddPartitions(t.Context(), who))
			require.NoError(t, c.TransactionCoordinator().AddOffsets(t.Context(), transaction.AddRequest{ID: "w", Producer: p.p}, "g"))
			for _, of := range out {
				require.NoError(t, p.send(t, of, name))
				a.values = append(a.values, valueIn(name, of))
			}
			require.NoError(t, p.commitOffsets(t, "g", map[record.TopicPartition]int64{in: piece + 1}))
			return a
		}
		end := func(a *attempt) {
			h.add(txnEvent{asked: a})
			require.NoError(t, p.end(t, a.commit))
			h.add(txnEvent{told: a})
			time.Sleep(time.Second) // the markers are written
		}
		end(write("first", 0, true))
		before := c.Backend().Status("__transaction_state", 0)
		require.NoError(t, c.KillBroker(before.Leader))
		await(t, "another coordinator", func() bool { return c.Backend().Status("__transaction_state", 0).LeaderEpoch > before.LeaderEpoch })
		require.NoError(t, c.StartBroker(t.Context(), before.Leader))
		time.Sleep(time.Second)
		end(write("second", 1, true))

		third := write("third", 2, false)
		for _, of := range append(out, at("__consumer_offsets", 0)) {
			id, _ := c.Backend().TopicID(of.Topic)
			m := replication.TxnMarker{Partition: of, TopicID: id, TxnMarker: partition.TxnMarker{
				ProducerID: p.p.ID, ProducerEpoch: p.p.Epoch, CoordinatorEpoch: before.LeaderEpoch, Commit: true}}
			answer := make(chan error, 1)
			path := replication.NetworkPath{From: before.Leader, To: c.Backend().Leader(of.Topic, of.Partition)}
			c.Backend().WriteTxnMarkers(path, []replication.TxnMarker{m}, nil, func(_ int, err error) { answer <- err })
			<-answer
		}
		end(third)
		require.Empty(t, h.check(outcome(t, c, out, "g")))
	})
}
