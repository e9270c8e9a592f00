package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// copied opens the copy. ok is false if it is absent or empty, or if Open returns ErrUnfinished.
func copied(t *testing.T, fsys *vfs.MemFS, what string) (c *Cluster, ok bool) {
	t.Helper()
	entries, err := fsys.ReadDir("copy/broker-1")
	none := errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 ||
		len(entries) == 1 && entries[0].Name() == unfinishedFile+".tmp" // nothing was done yet
	if none {
		return nil, false
	}
	c, err = Open(Config{FS: fsys, Dir: "copy"})
	if err != nil {
		require.ErrorIs(t, err, ErrUnfinished, what)
		return nil, false
	}
	return c, true
}

func TestCrashDuringABackupNeverOpensAsASmallerCluster(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 3)
	create(t, c, "empty", 2)
	for p := range int32(2) {
		for i := range 5 {
			produce(t, c, at("orders", p), fmt.Sprint(p, i))
		}
	}
	var one sync.Mutex // guards the counters: several copies run at once, beside the cluster
	states, whole := 0, 0
	check := func(at2 *vfs.MemFS, what string) {
		states++
		again, ok := copied(t, at2, what)
		if !ok {
			return
		}
		whole++
		for p := range int32(2) {
			require.Len(t, values(t, again, at("orders", p)), 5, what)
		}
		require.Empty(t, values(t, again, at("empty", 1)), what)
		require.Equal(t, c.ClusterID(), again.ClusterID())
		require.NoError(t, again.Close())
	}
	remove := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		one.Lock()
		defer one.Unlock()
		if e.Op&vfs.OpChange == 0 {
			return
		}
		check(fsys.Kill(), "killed before "+e.String())
		for seed := range uint64(3) {
			check(fsys.Crash(seed), fmt.Sprintf("power cut %d before %s", seed, e))
		}
		check(fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashKept}), "names only, before "+e.String())
	}})
	require.NoError(t, c.Backup(t.Context(), "copy"))
	remove()
	one.Lock()
	defer one.Unlock()
	require.Greater(t, states, 100)
	before := whole
	for seed := range uint64(20) {
		check(fsys.Crash(seed), fmt.Sprintf("power cut %d afterwards", seed))
	}
	require.Equal(t, before+20, whole, "it survives whatever comes once Backup has returned")
}

func TestBackupRefusesWhatItCannotWriteToAndWhatIsNotWhole(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 2)
	produce(t, c, at("orders", 0), "x")
	produce(t, c, at("orders", 1), "x")
	require.NoError(t, fsys.MkdirAll("used/x", 0o755))
	require.ErrorIs(t, c.Backup(t.Context(), "used"), fs.ErrExist)
	require.ErrorIs(t, c.Backup(t.Context(), "data"), fs.ErrInvalid, "its own directory")
	require.ErrorIs(t, c.Backup(t.Context(), "data/broker-1/copy"), fs.ErrInvalid, "inside of it")
	require.ErrorIs(t, c.Backup(t.Context(), ""), fs.ErrInvalid, "a name that was not set")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Backup(ctx, "copy"), context.Canceled)

	awaitFounding(c) // the founding syncs the metadata log
	remove := fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", After: 1, Err: errDisk})
	require.ErrorIs(t, c.Backup(t.Context(), "copy"), errDisk)
	remove()
	entries, err := fsys.ReadDir("copy")
	require.NoError(t, err)
	require.Empty(t, entries, "a backup that fails removes what it wrote")
	require.NoError(t, c.Backup(t.Context(), "copy"), "and can be tried again")
	require.ErrorIs(t, c.Backup(t.Context(), "copy"), fs.ErrExist)

	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Backup(t.Context(), "late"), ErrClosed)
	name := "data/broker-1/orders-1/00000000000000000000.log"
	p, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	p[60] ^= 1
	require.NoError(t, vfs.WriteFile(fsys, name, p))
	c = open(t, fsys)
	require.ErrorIs(t, c.Backup(t.Context(), "of-damaged"), errCorrupt)
}

func TestCopyIntoAClusterIsRefusedByWhateverName(t *testing.T) {
	dir := t.TempDir()
	own, link := filepath.Join(dir, "own"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(own, link))
	c := openWith(t, Config{Dir: own})
	require.ErrorIs(t, c.Backup(t.Context(), filepath.Join(link, "copy")), fs.ErrInvalid)
	saved := filepath.Join(dir, "saved")
	require.NoError(t, c.Backup(t.Context(), saved))
	require.NoError(t, os.Symlink(saved, filepath.Join(dir, "also")))
	require.ErrorIs(t, Restore(t.Context(), nil, saved, filepath.Join(dir, "also", "copy")), fs.ErrInvalid)
}

func TestCloseEndsABackup(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	closed := make(chan error, 1)
	var once sync.Once
	remove := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && strings.HasPrefix(e.Name, filepath.Join("copy", "broker-1", "orders-0.")) {
			once.Do(func() {
				go func() { closed <- c.Close() }()
				<-c.closing
			})
		}
	}})
	require.ErrorIs(t, c.Backup(t.Context(), "copy"), ErrClosed)
	require.NoError(t, <-closed)
	remove()
	entries, err := fsys.ReadDir("copy")
	require.NoError(t, err)
	require.Empty(t, entries)
}

// during runs fn once, when the copy of a directory has been made.
func during(fsys *vfs.MemFS, name string, fn func()) (remove func()) {
	var once sync.Once
	return fsys.Observe(vfs.Observer{After: func(e vfs.Event, _ error) {
		if e.Op == vfs.OpRename && e.NewName == filepath.Join("copy", "broker-1", name) {
			once.Do(fn)
		}
	}})
}

func TestTopicsDeletedDuringABackupAreNotInIt(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "gone", 1)
	create(t, c, "orders", 1)
	produce(t, c, at("gone", 0), "old")
	produce(t, c, at("orders", 0), "kept")
	n := 0
	var mu sync.Mutex
	remove := fsys.Observe(vfs.Observer{After: func(e vfs.Event, _ error) {
		if e.Op != vfs.OpRename || e.NewName != filepath.Join("copy", "broker-1", "orders-0") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if n++; n < backupRounds { // in the last round DeleteTopic would wait for the backup
			require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
			create(t, c, "gone", 1)
			produce(t, c, at("gone", 0), fmt.Sprint("new ", n))
		}
	}})
	require.NoError(t, c.Backup(t.Context(), "copy"))
	remove()
	require.Equal(t, backupRounds, n, "it began anew each time")
	again, ok := copied(t, fsys, "")
	require.True(t, ok)
	defer again.Close()
	require.Equal(t, []string{"kept"}, values(t, again, at("orders", 0)))
	require.Equal(t, []string{"new 2"}, values(t, again, at("gone", 0)))
}

// The metadata is copied last, so it is never older than the ids in the copied partitions.
func TestProducerIDsOfABackupAreNotGivenTwice(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	var last int64
	remove := during(fsys, "orders-0", func() {
		for range 2500 { // these ids may be in partitions that are copied later
			id, _, err := c.InitProducerID(context.Background())
			if err != nil {
				t.Error(err)
			}
			last = max(last, id)
		}
	})
	require.NoError(t, c.Backup(t.Context(), "copy"))
	remove()
	require.GreaterOrEqual(t, last, int64(2000))
	again, ok := copied(t, fsys, "")
	require.True(t, ok)
	defer again.Close()
	id, _, err := again.InitProducerID(t.Context())
	require.NoError(t, err)
	require.Greater(t, id, last)
}
