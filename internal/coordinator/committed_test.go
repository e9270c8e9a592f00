package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A noter is a machine that keeps its events as notes, and notifies each when it is accepted and
// committed. An empty event is not written. An event with an until is answered and written only
// behind the note "open", and is answered "too late" after until.
type noter struct {
	notes []string
	step  string
}

type noted struct {
	text    string
	to      machine.Ticket
	until   time.Time
	lingers bool
}

func (n *noter) Step(now time.Time, ev noted) (eff machine.Effects[string]) {
	n.step = ""
	if open := len(n.notes) > 0 && n.notes[len(n.notes)-1] == "open"; !ev.until.IsZero() && !open {
		if now.Before(ev.until) {
			eff.Replies = []machine.Reply{{To: ev.to, Later: ev.until}}
		} else {
			eff.Replies = []machine.Reply{{To: ev.to, Value: "too late"}}
		}
		return eff
	}
	n.step, eff.Lingers = ev.text, ev.lingers
	if ev.text != "" {
		eff.Records = []string{ev.text}
	}
	eff.Notice, eff.Committed = "accepted "+ev.text, "committed "+ev.text
	if ev.to != 0 {
		eff.Replies = []machine.Reply{{To: ev.to, Value: ev.text}}
	}
	return eff
}

func (n *noter) Accept() {
	if n.step != "" {
		n.Apply(n.step)
	}
}
func (n *noter) Discard()        {}
func (n *noter) Apply(r string)  { n.notes = append(n.notes, r) }
func (n *noter) Forgotten() bool { return false }

// heldLog is a topic of one partition whose appends the test completes.
type heldLog struct {
	mu      sync.Mutex
	batches []byte
	end     int64
	held    []func(error)
}

func (l *heldLog) Partitions(context.Context, bool) (int32, error) { return 1, nil }
func (l *heldLog) Leader(int32) (Leadership, error)                { return Leadership{Broker: 1}, nil }
func (l *heldLog) Log(int32, Leadership) (Log, error)              { return l, nil }

func (l *heldLog) Append(batch []byte, done func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, func(err error) {
		if err == nil {
			l.mu.Lock()
			at := len(l.batches)
			l.batches = append(l.batches, batch...)
			record.SetBaseOffset(l.batches[at:], l.end)
			b, _ := record.ParseUnverified(batch)
			l.end += int64(b.LastOffsetDelta) + 1
			l.mu.Unlock()
		}
		done(err)
	})
}

func (l *heldLog) AppendMarker(marker []byte, _ int16, done func(error)) { l.Append(marker, done) }

func (l *heldLog) GuardTransaction(w partition.TxnWrite, done func(error)) { done(nil) }

func (l *heldLog) Read(dst []byte, from int64, _ int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from > 0 {
		return dst, nil
	}
	return append(dst, l.batches...), nil
}

func (l *heldLog) Bounds() (start, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, l.end, nil
}

// answer completes the oldest waiting append.
func (l *heldLog) answer(err error) {
	l.mu.Lock()
	done := l.held[0]
	l.held = l.held[1:]
	l.mu.Unlock()
	done(err)
	synctest.Wait()
}

func noters(l Store, notify func(ShardID, any)) *Runtime[*noter, noted, string] {
	kind := Kind[*noter, noted, string]{
		New: func(string) *noter { return &noter{} }, ID: func(string) string { return "x" },
		Encode:    func(r string) (key, value []byte) { return []byte("x"), []byte(r) },
		Decode:    func(_, value []byte) (string, bool, error) { return string(value), true, nil },
		Cancel:    func(machine.Ticket) noted { return noted{} },
		Partition: func(string, int32) int32 { return 0 },
	}
	return New(kind, l, Config{Topic: "t", ExpiryInterval: 1000 * time.Hour, MaxBatchBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler), Notify: notify})
}

func TestWhatFollowsARecordIsToldWhenItIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l heldLog
		var told []string
		r := noters(&l, func(_ ShardID, notice any) { told = append(told, notice.(string)) })
		defer r.Close()
		_, err := r.Partitions(t.Context(), false)
		require.NoError(t, err)
		s, err := r.Shard(0)
		require.NoError(t, err)
		ask := func(text string) {
			go func() {
				_, _ = s.Do(t.Context(), "x", func(q *Request[*noter, noted, string]) { q.Step("x", noted{text: text, to: q.Ticket}) })
			}()
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			require.Equal(t, want, told)
			told = nil
		}

		ask("a")
		expect("accepted a")
		ask("b")
		ask("") // has no record, but follows the machine's earlier records
		expect("accepted b", "accepted ")
		l.answer(nil)
		expect("committed a")
		l.answer(nil)
		expect("committed b", "committed ")
		ask("")
		expect("accepted ", "committed ")

		// Notices of a failed append are not sent, nor notices of later events, whether or not the
		// log has these: the machine is loaded again.
		ask("c")
		ask("d")
		expect("accepted c", "accepted d")
		l.answer(errors.New("disk"))
		require.Empty(t, told)
		l.answer(nil)
		expect("accepted ", "committed ")
		require.NoError(t, s.Each(t.Context(), func(_ string, n *noter) { require.Equal(t, []string{"a", "b", "d"}, n.notes) }))
		ask("e")
		l.answer(nil)
		expect("accepted e", "committed e")
	})
}

// Checklist row 72: a caller that has the answer to a commit may rely on the notice of its
// markers.
func TestWhatFollowsARecordIsToldBeforeItsReplyIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l heldLog
		var mu sync.Mutex
		var told []string
		r := noters(&l, func(_ ShardID, notice any) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			told = append(told, notice.(string))
		})
		defer r.Close()
		_, err := r.Partitions(t.Context(), false)
		require.NoError(t, err)
		s, err := r.Shard(0)
		require.NoError(t, err)
		go func() {
			synctest.Wait()
			time.Sleep(2 * time.Second)
			l.answer(nil)
		}()
		_, err = s.Do(t.Context(), "x", func(q *Request[*noter, noted, string]) { q.Step("x", noted{text: "a", to: q.Ticket}) })
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"accepted a", "committed a"}, told)
	})
}

// A receiver of notices can step their machine by Tell. Each notice has the id of its shard.
func TestTellStepsAMachineThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l heldLog
		var from []ShardID
		r := noters(&l, func(s ShardID, _ any) { from = append(from, s) })
		defer r.Close()
		_, err := r.Partitions(t.Context(), false)
		require.NoError(t, err)
		s, err := r.Shard(0)
		require.NoError(t, err)
		texts := func() (texts []string) {
			require.NoError(t, s.Each(t.Context(), func(_ string, n *noter) { texts = append(texts, n.notes...) }))
			return texts
		}
		s.Tell("x", noted{text: "too early"})
		require.Empty(t, texts(), "there is none")
		go func() {
			_, _ = s.Do(t.Context(), "x", func(q *Request[*noter, noted, string]) { q.Step("x", noted{text: "a", to: q.Ticket}) })
		}()
		synctest.Wait()
		l.answer(nil)
		s.Tell("x", noted{text: "b"})
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, texts())
		l.answer(errors.New("disk"))
		time.Sleep(RetryLoadAfter)
		require.Equal(t, []string{"a"}, texts(), "it was loaded again")
		synctest.Wait()
		require.Equal(t, ShardID{0, Leadership{Broker: 1}}, s.ID())
		require.NotEmpty(t, from)
		for _, id := range from {
			require.Equal(t, s.ID(), id)
		}
	})
}

// A refusingLog rejects appends, or fails reads, while the test sets that.
type refusingLog struct {
	heldLog
	refuses, unreadable bool
	tried               int
}

func (l *refusingLog) Log(int32, Leadership) (Log, error) { return l, nil }

func (l *refusingLog) Append(batch []byte, done func(error)) {
	l.mu.Lock()
	l.tried++
	refuses := l.refuses
	l.mu.Unlock()
	if refuses {
		done(machine.ErrNotAvailable)
		return
	}
	l.heldLog.Append(batch, done)
	l.answer(nil)
}

func (l *refusingLog) answer(err error) {
	l.mu.Lock()
	done := l.held[0]
	l.held = l.held[1:]
	l.mu.Unlock()
	done(err)
}

func (l *refusingLog) Read(dst []byte, from int64, max int) ([]byte, error) {
	l.mu.Lock()
	unreadable := l.unreadable
	l.mu.Unlock()
	if unreadable {
		return nil, errors.New("disk")
	}
	return l.heldLog.Read(dst, from, max)
}

// set changes the log's behaviour, and returns the number of appends before.
func (l *refusingLog) set(refuses, unreadable bool) (tried int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses, l.unreadable = refuses, unreadable
	tried, l.tried = l.tried, 0
	return tried
}

// A machine may write records when it is loaded, such as the end of a transaction that has taken
// too long. They are repeated with each load. After a log has rejected them, as with too few
// replicas in sync, the next attempt follows a pause. No request is needed for it.
func TestWhatNobodyAsksForIsTriedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l refusingLog
		kind := Kind[*noter, noted, string]{
			New: func(string) *noter { return &noter{} }, ID: func(string) string { return "x" },
			Encode:    func(r string) (key, value []byte) { return []byte("x"), []byte(r) },
			Decode:    func(_, value []byte) (string, bool, error) { return string(value), true, nil },
			Cancel:    func(machine.Ticket) noted { return noted{} },
			Partition: func(string, int32) int32 { return 0 },
			Loaded:    noted{text: "loaded"},
		}
		start := func() *Runtime[*noter, noted, string] {
			r := New(kind, &l, Config{Topic: "t", ExpiryInterval: 1000 * time.Hour, MaxBatchBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
			_, err := r.Partitions(t.Context(), false)
			require.NoError(t, err)
			return r
		}
		r := start()
		s, err := r.Shard(0)
		require.NoError(t, err)
		_, err = s.Do(t.Context(), "x", func(q *Request[*noter, noted, string]) { q.Step("x", noted{text: "a", to: q.Ticket}) })
		require.NoError(t, err)
		r.Close()

		l.set(true, false)
		r = start()
		defer r.Close()
		r.Follow()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.InDelta(t, 66, l.set(false, true), 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, l.set(false, false), "it cannot be loaded")
		time.Sleep(RetryLoadAfter)
		synctest.Wait()
		require.Equal(t, 1, l.set(false, false))
		require.Equal(t, int64(1), r.Stats().Appends-r.Stats().AppendFailures)
	})
}

func TestAMachineKeepsNothingOfAnsweredRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l heldLog
		r := noters(&l, nil)
		defer r.Close()
		_, err := r.Partitions(t.Context(), false)
		require.NoError(t, err)
		s, err := r.Shard(0)
		require.NoError(t, err)
		for range 2 {
			go func() {
				_, err := s.Do(t.Context(), "x", func(q *Request[*noter, noted, string]) { q.Step("x", noted{text: "a", to: q.Ticket}) })
				require.NoError(t, err)
			}()
			synctest.Wait()
		}
		l.answer(nil)
		l.answer(nil)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if last := s.entries["x"].last; last != nil {
			require.Empty(t, last.replies)
			require.Empty(t, last.told)
		}
	})
}
