package group

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// logged is an offset in the log, its tombstone, or a marker.
type logged struct {
	group    string
	tp       record.TopicPartition
	offset   int64 // -1: a tombstone
	producer int64 // producer of its transaction or marker; -1: none
	end      bool
	commit   bool
}

// standings returns the state that follows from the log alone. The last offset or tombstone of a
// partition counts, except offsets in transactions that were not committed. An offset is unstable
// while its transaction is open and no tombstone follows.
func standings(log []logged, group string) (committed record.Offsets, unstable map[record.TopicPartition]bool) {
	committed, unstable = record.Offsets{}, map[record.TopicPartition]bool{}
	for i, l := range log {
		switch {
		case l.end || l.group != group:
			continue
		case l.offset < 0:
			delete(committed, l.tp)
			delete(unstable, l.tp)
			continue
		case l.producer < 0:
			committed[l.tp] = l.offset
			continue
		}
		// it counts at once, or never: later entries overwrite it
		end := slices.IndexFunc(log[i:], func(m logged) bool { return m.end && m.producer == l.producer })
		switch {
		case end < 0:
			unstable[l.tp] = true
		case log[i+end].commit:
			committed[l.tp] = l.offset
		}
	}
	return committed, unstable
}

// entries reads the log of a partition of the offsets topic. Every batch is of one producer.
func entries(t testing.TB, data []byte) (log []logged) {
	for len(data) > 0 {
		b, n, err := record.Parse(data)
		require.NoError(t, err)
		data = data[n:]
		if b.IsControl() {
			kind, _, err := b.Control()
			require.NoError(t, err)
			log = append(log, logged{producer: b.ProducerID, end: true, commit: kind == record.ControlCommit})
			continue
		}
		require.Equal(t, b.IsTransactional(), b.HasProducerID())
		if b.IsTransactional() {
			require.Zero(t, b.BaseSequence)
		}
		for rec, err := range b.All() {
			require.NoError(t, err)
			r, known, err := offsets.ParseRecord(rec.Key, rec.Value)
			require.NoError(t, err)
			if !known || r.Key.Type != offsets.KeyOffset {
				continue
			}
			l := logged{group: r.Key.Group, tp: record.TopicPartition{Topic: r.Key.Topic, Partition: r.Key.Partition}, offset: -1, producer: b.ProducerID}
			if r.Offset != nil {
				l.offset = r.Offset.Offset
			}
			log = append(log, l)
		}
	}
	return log
}

// requireStandings compares the coordinator's answers about a group with its log.
func requireStandings(t testing.TB, c *Coordinator, log []logged, group string) {
	t.Helper()
	want, open := standings(log, group)
	requireOffsets(t, c, group, want, open)
}

func requireOffsets(t testing.TB, c *Coordinator, group string, want record.Offsets, open map[record.TopicPartition]bool) {
	t.Helper()
	all := tps("t", 0, 1, 2)
	fetched := func(got map[record.TopicPartition]record.Committed) record.Offsets {
		out := record.Offsets{}
		for tp, o := range got {
			if o.Offset >= 0 {
				out[tp] = o.Offset
			}
		}
		return out
	}
	got, err := c.FetchOffsets(ctx, group, nil)
	require.NoError(t, err)
	require.Equal(t, want, fetched(got), "committed of %s", group)

	stable := record.Offsets{}
	for tp, o := range want {
		if !open[tp] {
			stable[tp] = o
		}
	}
	got, unstable, err := c.FetchStableOffsets(ctx, group, all)
	require.NoError(t, err)
	require.Len(t, got, len(all)-len(unstable))
	require.Equal(t, stable, fetched(got), "stable of %s", group)
	require.Len(t, unstable, len(open), "unstable of %s", group)
	for tp := range open {
		require.ErrorIs(t, unstable[tp], ErrUnstableOffsetCommit)
	}
	got, unstable, err = c.FetchStableOffsets(ctx, group, nil)
	require.NoError(t, err)
	require.Equal(t, stable, fetched(got))
	for tp := range unstable {
		require.Contains(t, want, tp, "it has nothing but a pending offset")
	}
	require.Len(t, unstable, len(want)-len(stable))
}

func inTxn(producer int64, epoch int16, group string, at map[record.TopicPartition]int64) TxnCommitRequest {
	r := TxnCommitRequest{CommitRequest: CommitRequest{Group: group, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}}, ProducerID: producer, ProducerEpoch: epoch}
	for tp, o := range at {
		r.Offsets[tp] = record.Committed{Offset: o, LeaderEpoch: -1}
	}
	return r
}

// A history has commits, plain and by several producers, ends of transactions, deletions, deaths
// of the coordinator and failures of the disk. After each step the groups agree with the log. The
// log has the confirmed changes, in their order.
func TestOffsetsInTransactionsAreWhereTheLogSays(t *testing.T) {
	for seed := range uint64(seeds(200)) {
		h := &txnHistory{rnd: rand.New(rand.NewPCG(seed, 1)), epochs: map[int64]int16{}, store: newFakeStore(map[string]int32{"t": 3})}
		for process := range 3 {
			h.store = h.store.clone()
			inBubble(t, h.store, Config{OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("seed %d: %q", seed, h.did)
					}
				})
				h.t, h.c = t, c
				if process == 0 {
					_, err := c.OffsetsPartition(ctx, "g", true)
					require.NoError(t, err)
				}
				for range 15 {
					h.step()
					requireStandings(t, c, h.log, "g")
					requireStandings(t, c, h.log, "h")
				}
				require.Equal(t, h.log, entries(t, h.store.logs[0].data))
			})
		}
	}
}

// A txnHistory is a history of changes at a coordinator with one partition.
type txnHistory struct {
	t      testing.TB
	rnd    *rand.Rand
	store  *fakeStore
	c      *Coordinator
	log    []logged        // the confirmed changes
	epochs map[int64]int16 // of producers 1 to 3
	did    []string
}

const txnCoordinatorEpoch = 5

func (h *txnHistory) any() (group string, at map[record.TopicPartition]int64) {
	at = map[record.TopicPartition]int64{}
	for range 1 + h.rnd.IntN(2) {
		at[tps("t", int32(h.rnd.IntN(3)))[0]] = int64(h.rnd.IntN(100))
	}
	return []string{"g", "h"}[h.rnd.IntN(2)], at
}

// add records offsets, or tombstones, in the order of the partitions.
func (h *txnHistory) add(group string, producer int64, at map[record.TopicPartition]int64) {
	for _, tp := range tps("t", 0, 1, 2) {
		if o, ok := at[tp]; ok {
			h.log = append(h.log, logged{group: group, tp: tp, offset: o, producer: producer})
		}
	}
}

func (h *txnHistory) note(format string, args ...any) {
	h.did = append(h.did, fmt.Sprintf(format, args...))
}

// step makes a random change.
func (h *txnHistory) step() {
	group, at := h.any()
	producer := int64(1 + h.rnd.IntN(3))
	epoch := h.epochs[producer]
	commit := CommitRequest{Group: group, Generation: -1, Offsets: inTxn(0, 0, group, at).Offsets}
	switch h.rnd.IntN(14) {
	case 0, 1, 2:
		h.note("%s commits %v", group, at)
		_, err := h.c.CommitOffsets(ctx, commit)
		require.NoError(h.t, err)
		h.add(group, -1, at)
	case 3, 4, 5:
		h.note("%s commits %v in %d/%d", group, at, producer, epoch)
		_, err := h.c.CommitTxnOffsets(ctx, inTxn(producer, epoch, group, at))
		require.NoError(h.t, err)
		h.add(group, producer, at)
	case 6, 7, 8:
		h.end(producer, h.rnd.IntN(3) > 0)
	case 9:
		h.refused(producer, group, at)
	case 10:
		h.deletes(group, at)
	case 11, 12:
		h.note("the coordinator dies")
		h.store.lead(0, int32(1+h.rnd.IntN(3)), h.rnd.IntN(2))
	case 13:
		h.note("the disk fails")
		h.store.with(func(f *fakeStore) { f.appendErr = errors.New("disk") })
		_, err := h.c.CommitOffsets(ctx, commit)
		require.Error(h.t, err)
		_, err = h.c.CommitTxnOffsets(ctx, inTxn(producer, epoch, group, at))
		require.Error(h.t, err)
		require.Error(h.t, h.c.EndTransaction(ctx, 0, partition.TxnMarker{ProducerID: producer, ProducerEpoch: epoch, CoordinatorEpoch: txnCoordinatorEpoch, Commit: true}))
		h.store.with(func(f *fakeStore) { f.appendErr = nil })
	}
}

// end ends a transaction, with a marker of version 2 half of the times.
func (h *txnHistory) end(producer int64, commit bool) {
	m := partition.TxnMarker{ProducerID: producer, ProducerEpoch: h.epochs[producer], CoordinatorEpoch: txnCoordinatorEpoch, Commit: commit}
	if h.rnd.IntN(2) == 0 {
		m.Version, m.ProducerEpoch = 2, m.ProducerEpoch+1
	}
	h.note("end %d/%d commit=%v", producer, m.ProducerEpoch, commit)
	require.NoError(h.t, h.c.EndTransaction(ctx, 0, m))
	h.epochs[producer] = m.ProducerEpoch
	h.log = append(h.log, logged{producer: producer, end: true, commit: commit})
}

// refused sends the requests of a replaced producer or coordinator, which are rejected.
func (h *txnHistory) refused(producer int64, group string, at map[record.TopicPartition]int64) {
	epoch := h.epochs[producer]
	if epoch == 0 {
		return // no producer was replaced
	}
	h.note("late in %d/%d", producer, epoch-1)
	_, err := h.c.CommitTxnOffsets(ctx, inTxn(producer, epoch-1, group, at))
	require.ErrorIs(h.t, err, partition.ErrInvalidProducerEpoch)
	m := partition.TxnMarker{ProducerID: producer, ProducerEpoch: epoch - 1, CoordinatorEpoch: txnCoordinatorEpoch, Commit: true}
	require.ErrorIs(h.t, h.c.EndTransaction(ctx, 0, m), partition.ErrInvalidProducerEpoch)
	m.ProducerEpoch, m.CoordinatorEpoch = epoch, txnCoordinatorEpoch-1
	require.ErrorIs(h.t, h.c.EndTransaction(ctx, 0, m), partition.ErrCoordinatorFenced)
}

// deletes deletes a group, or offsets of it.
func (h *txnHistory) deletes(group string, at map[record.TopicPartition]int64) {
	var err error
	var some []record.TopicPartition
	if h.rnd.IntN(2) == 0 {
		h.note("%s is deleted", group)
		some = tps("t", 0, 1, 2)
		err = h.c.DeleteGroup(ctx, group)
	} else {
		h.note("%s: %v are deleted", group, at)
		some = slices.Collect(maps.Keys(at))
		sortPartitions(some)
		_, err = h.c.DeleteOffsets(ctx, group, some...)
	}
	committed, unstable := standings(h.log, group)
	if len(committed)+len(unstable) == 0 {
		require.ErrorIs(h.t, err, ErrGroupNotFound)
		return
	}
	require.NoError(h.t, err)
	for _, tp := range some {
		if _, ok := committed[tp]; ok || unstable[tp] {
			h.log = append(h.log, logged{group: group, tp: tp, offset: -1, producer: -1})
		}
	}
}

// Kafka 4.3 wrote the log and returned the answers. It has plain commits and commits of three
// producers, all by the Java client. Offsets, a group and a topic are deleted under a pending
// offset, and a kill ends three transactions in the middle.
func TestPendingOffsetsThatKafkaWroteAreTakenOver(t *testing.T) {
	data, err := os.ReadFile("testdata/pending-offsets.log")
	require.NoError(t, err)
	at := func(offsets ...int64) record.Offsets {
		out := record.Offsets{}
		for i, o := range offsets {
			out[tps("t", int32(i))[0]] = o
		}
		return out
	}
	type answer struct {
		group     string
		committed record.Offsets
		unstable  []int32
	}
	for end, answers := range map[int64][]answer{ // by the end of the log at that time
		3:  {{"g", at(1, 1), nil}},
		5:  {{"g", at(2, 1), []int32{0}}},
		6:  {{"g", at(4, 1), []int32{0}}}, // overwritten, still pending
		7:  {{"g", at(4, 1), nil}},
		10: {{"g", at(4, 6), []int32{1}}}, // the transaction that ends first was written last
		11: {{"g", at(4, 6), nil}},
		15: {{"g", at(4, 16), nil}},
		16: {{"g", at(4, 16), []int32{2}}},
		17: {{"g", at(4, 16), nil}},
		19: {{"g", at(4, 16), nil}}, // deleted while it was pending
		20: {{"g", at(4, 16), nil}},
		23: {{"d", at(), nil}}, // the group was deleted
		24: {{"d", at(), nil}},
		26: {{"e", at(), nil}}, // the topic was deleted
		27: {{"e", at(), nil}},
		31: {{"m", at(40), nil}}, // of a member
		36: {{"m", at(40, 42), nil}},
		44: {{"g", at(4, 16), []int32{0, 2}}, {"o", at(), []int32{0}}, {"m", at(0, 0, 0), nil}, {"d", at(), nil}, {"e", at(), nil}},
	} {
		store := newFakeStore(map[string]int32{"t": 3})
		store.topics.Topics["t"] = TopicInfo{Partitions: 3} // with an unknown id
		_, err := store.OffsetsTopic(ctx, OffsetsShape{Partitions: 1})
		require.NoError(t, err)
		l := store.logs[0]
		for p := data; l.end < end; {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			require.Equal(t, l.end, b.BaseOffset)
			l.data, l.end, p = append(l.data, b.Bytes()...), b.NextOffset(), p[n:]
		}
		require.Equal(t, end, l.end)
		inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
			for _, a := range answers {
				open := map[record.TopicPartition]bool{}
				for _, tp := range tps("t", a.unstable...) {
					open[tp] = true
				}
				requireOffsets(t, c, a.group, a.committed, open)
			}
			if end < 44 {
				return
			}
			// and the later ends of the open transactions
			for id, epoch := range []int16{5, 3, 8} {
				m := partition.TxnMarker{ProducerID: int64(id), ProducerEpoch: epoch + 1, Commit: id != 2, Version: 2}
				require.NoError(t, c.EndTransaction(ctx, 0, m))
			}
			requireOffsets(t, c, "g", at(10, 16, 9), nil)
			requireOffsets(t, c, "o", at(), nil)
		})
	}
}

// Compaction leaves the header of a marker whose transaction has no records left, if it is the
// last trace of its producer.
func TestMarkerThatCompactionHasEmptiedEndsNothing(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 3}), tps("t", 0)[0]
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 1}))
		require.NoError(t, c.EndTransaction(ctx, 0, partition.TxnMarker{ProducerID: 1, Commit: true}))
		l := store.logs[0]
		var out []byte
		for p := l.data; len(p) > 0; {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			out, _, err = record.Filter(out, b, record.FilterOptions{KeepEmpty: true}, func(*record.Record) bool { return !b.IsControl() })
			require.NoError(t, err)
			p = p[n:]
		}
		require.Less(t, len(out), len(l.data))
		l.data, l.confirmed = out, len(out)
		store.lead(0, 2, 0)
		requireOffsets(t, c, "g", record.Offsets{tp: 1}, nil)
	})
}

// Many groups commit, plain and in transactions, beside markers. Each batch is of one transaction
// or of none. The groups agree with the log, also if the coordinator dies with a part of it.
func TestTransactionsShareTheLogWithEverybody(t *testing.T) {
	for seed := range uint64(seeds(50)) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		store := newFakeStore(map[string]int32{"t": 3})
		store.syncTime = 10 * time.Millisecond
		inBubble(t, store, Config{OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
			_, err := c.OffsetsPartition(ctx, "g0", true)
			require.NoError(t, err)
			groups := []string{"g0", "g1", "g2"}
			for range 4 {
				var wg sync.WaitGroup
				for i := range 20 {
					group, producer, what, offset := groups[rnd.IntN(3)], rnd.Int64N(3), rnd.IntN(5), rnd.Int64N(100)
					tp, wait := tps("t", int32(rnd.IntN(3)))[0], time.Duration(rnd.IntN(30))*time.Millisecond
					wg.Go(func() { // a failed request may be stored or not
						time.Sleep(wait)
						switch {
						case what < 2:
							_, _ = c.CommitOffsets(ctx, CommitRequest{Group: group, Generation: -1, Offsets: inTxn(0, 0, "", map[record.TopicPartition]int64{tp: offset}).Offsets})
						case what < 4:
							_, _ = c.CommitTxnOffsets(ctx, inTxn(producer, 0, group, map[record.TopicPartition]int64{tp: offset}))
						default:
							_ = c.EndTransaction(ctx, 0, partition.TxnMarker{ProducerID: producer, Commit: i%2 == 0})
						}
					})
				}
				if rnd.IntN(2) == 0 {
					time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
					store.lead(0, 2, rnd.IntN(3))
				}
				wg.Wait()
				synctest.Wait()
				for _, g := range groups {
					requireStandings(t, c, entries(t, store.logs[0].data), g)
				}
			}
		})
	}
}

// A marker is confirmed when it is committed. Earlier readers of its outcome wait for that.
func TestOutcomeIsSeenWhenItsMarkerIsCommitted(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 3})
	inBubble(t, store, Config{OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
		require.ErrorIs(t, c.EndTransaction(ctx, 0, partition.TxnMarker{}), ErrUnknownTopicOrPartition, "there is no offsets topic")
		tp := tps("t", 0)[0]
		_, err := c.CommitTxnOffsets(ctx, inTxn(1, 0, "g", map[record.TopicPartition]int64{tp: 5}))
		require.NoError(t, err)
		store.with(func(f *fakeStore) { f.syncTime = time.Second })
		began := time.Now()
		ended := make(chan time.Duration, 2)
		go func() {
			assert(t, c.EndTransaction(ctx, 0, partition.TxnMarker{ProducerID: 1, Commit: true}))
			ended <- time.Since(began)
		}()
		synctest.Wait()
		requireOffsets(t, c, "g", record.Offsets{tp: 5}, nil)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, time.Second, <-ended)
		require.ErrorIs(t, c.EndTransaction(ctx, 1, partition.TxnMarker{}), ErrUnknownTopicOrPartition)
		require.ErrorIs(t, c.On(2).EndTransaction(ctx, 0, partition.TxnMarker{}), ErrNotCoordinator)

		// a commit is in the transaction when it is on disk
		began = time.Now()
		_, err = c.CommitTxnOffsets(ctx, inTxn(1, 0, "g", map[record.TopicPartition]int64{tp: 6}))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func assert(t testing.TB, err error) {
	if err != nil {
		t.Error(err)
	}
}

// A commit in a transaction whose coordinator died is not repeated. The transaction may have ended
// meanwhile, and an offset behind its marker would stay pending for ever.
func TestCommitInATransactionThatMayBeStoredIsNotRepeated(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 3}), tps("t", 0)[0]
	inBubble(t, store, onePartition, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 1}))
		store.with(func(f *fakeStore) { f.syncTime = time.Second })
		stored := make(chan error, 1)
		go func() {
			_, err := c.CommitTxnOffsets(ctx, inTxn(1, 0, "g", map[record.TopicPartition]int64{tp: 2}))
			stored <- err
		}()
		time.Sleep(time.Second / 2)
		store.lead(0, 2, 1)
		err := <-stored
		require.ErrorIs(t, err, ErrNotCoordinator)
		require.ErrorIs(t, err, ErrUncertain)
		require.Len(t, entries(t, store.logs[0].data), 2)
		requireOffsets(t, c, "g", record.Offsets{tp: 1}, map[record.TopicPartition]bool{tp: true})
	})
}

func TestCommitsInATransactionAreCheckedAsOthers(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 3})
	inBubble(t, store, Config{OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
		tp, none := tps("t", 0)[0], tps("t", 3)[0]
		r := inTxn(1, 0, "g", map[record.TopicPartition]int64{tp: 5, none: 6})
		errs, err := c.CommitTxnOffsets(ctx, r)
		require.NoError(t, err)
		require.NoError(t, errs[tp])
		require.ErrorIs(t, errs[none], ErrUnknownTopicOrPartition)
		r.TopicIDs = map[string][16]byte{"t": {9}}
		errs, err = c.CommitTxnOffsets(ctx, r)
		require.NoError(t, err)
		require.ErrorIs(t, errs[tp], ErrUnknownTopicOrPartition, "another topic of that name")
		_, err = c.CommitTxnOffsets(ctx, inTxn(1, 0, string(make([]byte, 1<<15)), nil))
		require.ErrorIs(t, err, ErrInvalidGroupID)
		require.Len(t, entries(t, store.logs[0].data), 1)

		joined, err := c.Join(ctx, JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range"}}})
		require.NoError(t, err)
		member := func(id string, generation int32) error {
			r := inTxn(1, 0, "g", map[record.TopicPartition]int64{tp: 7})
			r.MemberID, r.Generation = id, generation
			_, err := c.CommitTxnOffsets(ctx, r)
			return err
		}
		require.NoError(t, member(joined.MemberID, joined.Generation))
		require.ErrorIs(t, member(joined.MemberID, joined.Generation-1), ErrIllegalGeneration)
		require.ErrorIs(t, member("nobody", joined.Generation), ErrUnknownMember)
		require.NoError(t, member("", -1), "a producer that names no member")
		_, err = c.On(2).CommitTxnOffsets(ctx, inTxn(1, 0, "g", map[record.TopicPartition]int64{tp: 8}))
		require.ErrorIs(t, err, ErrNotCoordinator)
	})
}
