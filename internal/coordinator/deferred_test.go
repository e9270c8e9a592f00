package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/synctest"
)

// A notebook is a Shard of noters whose log the test completes.
type notebook struct {
	*testing.T
	log heldLog
	*Shard[*noter, noted, string]
}

func openNotebook(t *testing.T) *notebook {
	b := &notebook{T: t}
	r := noters(&b.log, nil)
	t.Cleanup(r.Close)
	_, err := r.Partitions(t.Context(), false)
	require.NoError(t, err)
	b.Shard, err = r.Shard(0)
	require.NoError(t, err)
	return b
}

// answered is the outcome of a request.
type answered struct {
	value any
	err   error
	after time.Duration
}

// ask makes a request, whose answer is sent to the channel.
func (b *notebook) ask(ctx context.Context, ev noted) <-chan answered {
	answer, began := make(chan answered, 1), time.Now()
	go func() {
		v, err := b.Do(ctx, "x", func(q *Request[*noter, noted, string]) {
			ev.to = q.Ticket
			q.Step("x", ev)
		})
		answer <- answered{v, err, time.Since(began)}
	}()
	synctest.Wait()
	return answer
}

// underWay returns the number of appends that the log has not completed.
func (b *notebook) underWay() int {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	return len(b.log.held)
}

func (b *notebook) notes() (notes []string) {
	b.Helper()
	require.NoError(b, b.Each(b.Context(), func(_ string, n *noter) { notes = append(notes, n.notes...) }))
	return notes
}

// A request that a machine cannot answer yet is fed again behind its next records, and shares
// their batch: both wait for the log once.
func TestDeferredRequestGoesWithTheRecordThatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openNotebook(t)
		first := b.ask(t.Context(), noted{text: "a"})
		until := time.Now().Add(time.Hour)
		leaving, leave := context.WithCancel(t.Context())
		gone := b.ask(leaving, noted{text: "gone", until: until})
		one, two := b.ask(t.Context(), noted{text: "one", until: until}), b.ask(t.Context(), noted{text: "two", until: until})
		leave()
		require.ErrorIs(t, (<-gone).err, context.Canceled)
		b.log.answer(nil)
		require.NoError(t, (<-first).err)
		require.Zero(t, b.underWay())
		require.Empty(t, one)

		b.Tell("x", noted{text: "open", lingers: true})
		synctest.Wait()
		require.Equal(t, 1, b.underWay(), "one waits, so it does not linger")
		require.Empty(t, one, "not before it is committed")
		b.log.answer(nil)
		require.Equal(t, answered{value: "one"}, <-one)
		require.Zero(t, b.underWay(), "it was in the same batch")
		require.Empty(t, two, "it waits behind one")
		require.Equal(t, []string{"a", "open", "one"}, b.notes())

		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, answered{value: "too late", after: time.Hour}, <-two)
		require.Zero(t, b.underWay())
	})
}

func TestDeferredRequestsEndWithTheirShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openNotebook(t)
		until := time.Now().Add(time.Hour)
		first := b.ask(t.Context(), noted{text: "a"})
		waits := b.ask(t.Context(), noted{text: "b", until: until})
		b.log.answer(errors.New("disk"))
		require.Error(t, (<-first).err)
		require.Error(t, (<-waits).err, "the machine that it waits for is loaded again")
		time.Sleep(2 * time.Hour)
		require.Empty(t, b.notes())

		waits = b.ask(t.Context(), noted{text: "c", until: time.Now().Add(time.Hour)})
		b.end(machine.ErrClosed)
		require.ErrorIs(t, (<-waits).err, machine.ErrClosed)
	})
}

// Records without a waiting caller are written with the first record that has one, or alone a
// moment later.
func TestRecordsThatNobodyWaitsForGoWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openNotebook(t)
		first := b.ask(t.Context(), noted{text: "a"})
		b.log.answer(nil)
		<-first

		b.Tell("x", noted{text: "b", lingers: true})
		time.Sleep(lingerTime / 2)
		b.Tell("x", noted{text: "c", lingers: true})
		synctest.Wait()
		require.Zero(t, b.underWay())
		second := b.ask(t.Context(), noted{text: "d"})
		require.Equal(t, 1, b.underWay())
		b.log.answer(nil)
		require.Equal(t, answered{value: "d"}, <-second)
		require.Zero(t, b.underWay())
		require.True(t, b.linger.Armed() == false && !b.lingering)

		b.Tell("x", noted{text: "e", lingers: true})
		time.Sleep(lingerTime - 1)
		synctest.Wait()
		require.Zero(t, b.underWay())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, 1, b.underWay())
		b.log.answer(nil)

		// a reply about a machine whose records linger waits for them
		b.Tell("x", noted{text: "f", lingers: true})
		look := b.ask(t.Context(), noted{})
		require.Equal(t, 1, b.underWay())
		require.Empty(t, look)
		b.log.answer(nil)
		require.Equal(t, answered{value: ""}, <-look)
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, b.notes())
		read, err := b.log.Read(nil, 0, 1<<20)
		require.NoError(t, err)
		require.NotEmpty(t, read)
		require.Equal(t, int64(6), b.log.end)
	})
}

// Lingering records are dropped when a Shard ends or is loaded again: no caller has an answer that
// depends on them.
func TestWhatLingersEndsWithItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openNotebook(t)
		first := b.ask(t.Context(), noted{text: "a"})
		b.log.answer(nil)
		<-first
		second := b.ask(t.Context(), noted{text: "b"})
		b.Tell("x", noted{text: "lost", lingers: true})
		require.Equal(t, 1, b.underWay())
		b.log.answer(errors.New("disk"))
		require.Error(t, (<-second).err)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"a"}, b.notes())
		require.Zero(t, b.underWay())

		b.Tell("x", noted{text: "c", lingers: true})
		time.Sleep(lingerTime)
		synctest.Wait()
		require.Equal(t, 1, b.underWay())
		b.log.answer(nil)
		require.Equal(t, []string{"a", "c"}, b.notes())
		b.Tell("x", noted{text: "d", lingers: true})
		b.end(machine.ErrClosed)
		time.Sleep(time.Hour)
		require.Zero(t, b.underWay())
	})
}
