package partition

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// follower opens a replica that follows in epoch 1, on a file system that can fail, and copies the
// values to it as records. It gets committed as the high watermark.
func follower(t *testing.T, committed int64, values ...string) (*Partition, *vfs.MemFS) {
	t.Helper()
	fs := vfs.Mem()
	p, err := Open("p", testConfig(fs))
	require.NoError(t, err)
	require.NoError(t, p.Follow(1))
	for _, v := range values {
		copyTo(t, p, p.LogEndOffset(), committed, v)
	}
	return p, fs
}

// copyTo copies a record to a follower, at an offset, from the leader of its epoch.
func copyTo(t *testing.T, p *Partition, offset, committed int64, value string) {
	t.Helper()
	done := make(chan error, 1)
	var b []byte
	if value != "" {
		b = stamped(batchSpec{value: value}, offset, p.epoch)
	}
	p.CopyFrom(&Copy{Epoch: p.epoch, Offset: offset, Batches: b, HighWatermark: committed, Done: func(err error) { done <- err }})
	require.NoError(t, <-done)
}

func read(p *Partition, offset int64) (ReadResult, error) {
	return p.ReadFollower(ReadRequest{Offset: offset, CurrentLeaderEpoch: -1}, 1)
}

func TestReaderOfAFollowerIsWokenWhateverHappensToIt(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, p *Partition){
		"it hears of the high watermark": func(t *testing.T, p *Partition) { copyTo(t, p, 2, 2, "") },
		"it leads":                       func(t *testing.T, p *Partition) { require.NoError(t, p.BecomeLeader(2)) },
		"it follows somebody else":       func(t *testing.T, p *Partition) { require.NoError(t, p.Follow(2)) },
		"it is cut":                      func(t *testing.T, p *Partition) { require.NoError(t, p.TruncateTo(1)) },
		"its broker leaves":              func(_ *testing.T, p *Partition) { p.Resign() },
		"it is closed":                   func(t *testing.T, p *Partition) { require.NoError(t, p.Close()) },
		"it is out of sync":              func(_ *testing.T, p *Partition) { p.WakeReaders() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := follower(t, 1, "x", "y")
				defer p.Close()
				w := newWoken(1, ReadCommitted)
				p.WatchFollower(1, w.Waiter)
				require.Zero(t, w.times())
				change(t, p)
				require.Equal(t, 1, w.times())
				w.Cancel()
			})
		})
	}
}

func TestReadersWaitForTheRoleThatTheyReadIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := follower(t, 1, "x", "y")
		defer p.Close()
		w := newWoken(1, ReadCommitted)
		p.Watch(1, w.Waiter)
		require.Equal(t, 1, w.times(), "it does not lead")
		require.NoError(t, p.BecomeLeader(2))
		w = newWoken(1, ReadCommitted)
		p.WatchFollower(5, w.Waiter)
		require.Equal(t, 1, w.times(), "it leads")
	})
}

func TestFollowerIsReadUpToTheHighWatermarkThatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := follower(t, 1, "x", "y")
		defer p.Close()
		got, err := read(p, 0)
		require.NoError(t, err)
		require.Equal(t, []int64{0}, offsetsOf(t, got.Bytes))
		require.Equal(t, []int64{1, 1, 0, 1}, []int64{got.HighWatermark, got.LastStableOffset, got.LogStartOffset, int64(got.LeaderEpoch)})
		for _, offset := range []int64{1, 2} { // above the high watermark, up to the end
			got, err = read(p, offset)
			require.NoError(t, err)
			require.Empty(t, got.Bytes)
		}
		_, err = read(p, 3)
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
		for epoch, want := range map[int32]error{0: ErrFencedLeaderEpoch, 2: ErrUnknownLeaderEpoch, 1: nil} {
			_, err = p.ReadFollower(ReadRequest{CurrentLeaderEpoch: epoch}, 1)
			require.ErrorIs(t, err, want)
		}
		_, err = p.Read(ReadRequest{CurrentLeaderEpoch: -1})
		require.ErrorIs(t, err, ErrNotLeader)
		p.Resign()
		_, err = read(p, 0)
		require.ErrorIs(t, err, ErrNotLeader)
	})
}

// An unclean leader makes a follower truncate readable records, and write others in their place.
func TestReadThatACutComesBetweenShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, fs := follower(t, 3, "x", "y", "z")
		require.NoError(t, first.Close())
		p, err := Open("p", testConfig(fs)) // its records are not in memory
		require.NoError(t, err)
		defer p.Close()
		require.NoError(t, p.Follow(1))
		copyTo(t, p, 3, 3, "")

		slow := fs.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "*.log", Times: vfs.Always, Delay: time.Minute})
		failed := make(chan error, 1)
		go func() { _, err := read(p, 0); failed <- err }()
		synctest.Wait()
		slow()
		require.NoError(t, p.TruncateTo(1))
		for offset := range int64(3) {
			copyTo(t, p, 1+offset, 0, "other") // none of them committed
		}
		require.ErrorIs(t, <-failed, ErrOffsetNotAvailable)
		got, err := read(p, 0)
		require.NoError(t, err)
		require.Equal(t, []int64{0}, offsetsOf(t, got.Bytes))

		broken := errors.New("broken")
		mend := fs.Inject(vfs.Fault{Ops: vfs.OpTruncate, Times: vfs.Always, Err: broken})
		require.ErrorIs(t, p.TruncateTo(2), broken)
		_, err = read(p, 0)
		require.ErrorIs(t, err, ErrOffsetNotAvailable, "nobody knows what is there")
		w := newWoken(1, ReadCommitted)
		p.WatchFollower(9, w.Waiter)
		require.Equal(t, 1, w.times())
		w.Cancel()
		require.ErrorIs(t, p.TruncateTo(2), broken)
		_, err = read(p, 0)
		require.ErrorIs(t, err, ErrOffsetNotAvailable)
		mend()
		require.Error(t, p.TruncateTo(2), "not until it is opened again")
		_, err = read(p, 0)
		require.ErrorIs(t, err, ErrOffsetNotAvailable)
	})
}

// stamped is a batch as a leader has written it.
func stamped(s batchSpec, offset int64, epoch int32) []byte {
	b := s.build()
	record.SetBaseOffset(b, offset)
	record.SetLeaderEpoch(b, epoch)
	return b
}

// offsetsOf returns the base offsets of batches.
func offsetsOf(t *testing.T, batches []byte) (offsets []int64) {
	t.Helper()
	for len(batches) > 0 {
		b, n, err := record.Parse(batches)
		require.NoError(t, err)
		offsets, batches = append(offsets, b.BaseOffset), batches[n:]
	}
	return offsets
}
