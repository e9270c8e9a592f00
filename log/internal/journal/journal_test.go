package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

const (
	testDir  = "/d"
	testPath = testDir + "/journal"
)

// keeper is a holder whose Settle returns err.
type keeper struct {
	err     error
	settled int
}

func (k *keeper) Settle() error {
	k.settled++
	return k.err
}

func testFS(t testing.TB) *vfs.MemFS {
	t.Helper()
	fsys := vfs.Mem()
	require.NoError(t, vfs.MakeDir(fsys, testDir, 0o755))
	return fsys
}

func create(t testing.TB, fsys vfs.FS, half int64) *Journal[*keeper] {
	t.Helper()
	j, err := Create[*keeper](testPath, Config{FS: fsys, HalfSize: half, Witness: 77})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func entry(i int) Entry {
	return Entry{Log: fmt.Sprintf("topic-%d", i%3), Tag: uint64(i) << 40, Base: int64(i), Pos: int64(10 * i), Data: []byte(strings.Repeat(string(rune('a'+i%26)), 1+i*7%300))}
}

// frameOf returns a frame of entries.
func frameOf(es ...Entry) *Frame {
	f := new(Frame)
	for _, e := range es {
		half := len(e.Data) / 2
		f.Add(e, e.Data[:half], e.Data[half:])
	}
	return f
}

func load(t testing.TB, fsys vfs.FS) []Entry {
	t.Helper()
	c, err := Load(fsys, testPath)
	require.NoError(t, err)
	require.Equal(t, uint64(77), c.Header.Witness)
	return c.Entries
}

func TestWhatWasAppendedIsLoadedInItsOrder(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 0)
	require.Empty(t, load(t, fsys))
	var want []Entry
	f := new(Frame)
	for i := range 50 {
		f.Reset()
		require.True(t, f.Empty())
		for k := range 1 + i%4 {
			e := entry(10*i + k)
			f.Add(e, e.Data)
			want = append(want, e)
		}
		require.False(t, f.Empty())
		require.NoError(t, j.Append(f, nil))
		require.Equal(t, want, load(t, fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})), "as soon as Append returns")
	}
	require.Equal(t, int64(50), j.Frames())
	c, err := Load(fsys, testPath)
	require.NoError(t, err)
	require.Equal(t, fsys.BootID(), c.Header.BootID)
}

func TestAHalfIsUsedAgainOnlyAfterItsHoldersHaveSettled(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 2048)
	a, b := &keeper{}, &keeper{}
	one := func() *Frame { return frameOf(Entry{Log: "x", Data: make([]byte, 800)}) }
	require.NoError(t, j.Append(one(), []*keeper{a}))
	require.NoError(t, j.Append(one(), []*keeper{a}))
	require.False(t, j.Due())
	require.NoError(t, j.Append(one(), []*keeper{b}), "the other half")
	require.True(t, j.Due())
	require.NoError(t, j.Append(one(), []*keeper{b}))
	require.ErrorIs(t, j.Append(one(), []*keeper{b}), ErrFull)
	require.Len(t, load(t, fsys), 4)
	require.Zero(t, a.settled+b.settled)
	require.NoError(t, j.Checkpoint())
	require.Equal(t, []int{1, 1}, []int{a.settled, b.settled})
	require.False(t, j.Due())
	require.Empty(t, load(t, fsys), "both halves were full")
	require.NoError(t, j.Append(one(), []*keeper{b}))
	require.Len(t, load(t, fsys), 1)
	require.ErrorIs(t, j.Append(frameOf(Entry{Data: make([]byte, 2048)}), nil), ErrFull, "larger than a half")
	require.NoError(t, j.Err())
}

func TestDrainEmptiesTheHalfInUseAsWell(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 4096)
	a := &keeper{}
	require.NoError(t, j.Drain())
	for range 3 {
		require.NoError(t, j.Append(frameOf(entry(1)), []*keeper{a}))
		require.NoError(t, j.Drain())
		require.Empty(t, load(t, fsys))
	}
	require.Equal(t, 3, a.settled)
}

func TestAHolderThatCannotSettleKeepsItsEntries(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 4096)
	cause := errors.New("disk")
	require.NoError(t, j.Append(frameOf(entry(1)), []*keeper{{err: cause}, {}}))
	require.ErrorIs(t, j.Drain(), cause)
	require.ErrorIs(t, j.Err(), cause)
	require.ErrorIs(t, j.Append(frameOf(entry(2)), nil), cause, "out of use")
	require.ErrorIs(t, j.Checkpoint(), cause)
	require.False(t, j.Due())
	require.Equal(t, []Entry{entry(1)}, load(t, fsys))
}

func TestAFailedWriteOrSyncEndsTheUseOfTheJournal(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		fsys := testFS(t)
		j := create(t, fsys, 4096)
		require.NoError(t, j.Append(frameOf(entry(1)), nil))
		fsys.Inject(vfs.Fault{Ops: op, Err: fs.ErrInvalid})
		require.ErrorIs(t, j.Append(frameOf(entry(2)), nil), fs.ErrInvalid)
		require.ErrorIs(t, j.Append(frameOf(entry(3)), nil), fs.ErrInvalid, "nothing may follow what may be missing")
		require.ErrorIs(t, j.Drain(), fs.ErrInvalid)
		lost := fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		require.Equal(t, []Entry{entry(1)}, load(t, lost))
	}
}

func TestRemoveTakesTheFileAway(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 4096)
	require.NoError(t, j.Remove())
	lost := fsys.CrashWith(vfs.CrashOptions{Entries: vfs.CrashLost})
	_, err := Load(lost, testPath)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// overwrite changes bytes of the file.
func overwrite(t testing.TB, fsys vfs.FS, pos int64, p []byte) {
	t.Helper()
	f, err := fsys.OpenFile(testPath, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(p, pos)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestATornEndIsNoDamageButAHoleBeforeValidFramesIs(t *testing.T) {
	const at = headerBytes // of the first frame; each takes a sector
	for frame := range 3 {
		fsys := testFS(t)
		j := create(t, fsys, 4096)
		for i := range 3 {
			require.NoError(t, j.Append(frameOf(entry(i)), nil))
		}
		overwrite(t, fsys, at+int64(frame)*alignment+frameFixed+3, []byte{0xff})
		c, err := Load(fsys, testPath)
		if frame == 2 {
			require.NoError(t, err)
			require.Equal(t, []Entry{entry(0), entry(1)}, c.Entries)
			continue
		}
		var damage *DamageError
		require.ErrorAs(t, err, &damage)
		require.Equal(t, int64(at+frame*alignment), damage.Pos)
	}
}

func TestWhatIsLeftOfEarlierUsesOfAHalfIsNotLoaded(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 4096)
	for i := range 6 {
		require.NoError(t, j.Append(frameOf(entry(i)), nil))
	}
	require.NoError(t, j.Drain())
	require.NoError(t, j.Append(frameOf(entry(7)), nil))
	require.Equal(t, []Entry{entry(7)}, load(t, fsys))
	// The same frame, torn at each byte, before frames of an earlier use.
	for cut := range alignment {
		torn := fsys.Kill()
		overwrite(t, torn, headerBytes+int64(cut), make([]byte, alignment-cut))
		got := load(t, torn)
		require.Subset(t, []Entry{entry(7)}, got, "cut at %d", cut)
	}
}

func TestFramesOfAnotherFileAreNotLoaded(t *testing.T) {
	fsys := testFS(t)
	j := create(t, fsys, 4096)
	require.NoError(t, j.Append(frameOf(entry(1)), nil))
	old, err := vfs.ReadFile(fsys, testPath)
	require.NoError(t, err)
	create(t, fsys, 4096)
	overwrite(t, fsys, headerBytes, old[headerBytes:])
	require.Empty(t, load(t, fsys))
}

func TestHeadersThatCannotBeReadAreRefused(t *testing.T) {
	fsys := testFS(t)
	create(t, fsys, 4096)
	damaged := fsys.Kill()
	overwrite(t, damaged, 20, []byte{1, 2, 3})
	_, err := Load(damaged, testPath)
	require.ErrorAs(t, err, new(*DamageError))
	overwrite(t, fsys, 11, []byte{2})
	_, err = Load(fsys, testPath)
	require.ErrorIs(t, err, ErrNewerFormat)
}
