package replication

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// An incomplete copy of a backup, cut off or with lost files, is not restored. It does not open as
// if the missing files had never existed.
func TestBackupThatLacksFilesIsNotRestored(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 2)
	create(t, c, "empty", 1)
	for range 5 {
		produce(t, c, at("orders", 0), "x")
		produce(t, c, at("orders", 1), "x")
	}
	require.NoError(t, c.Backup(t.Context(), "saved"))
	listed, err := CheckBackup(fsys, "saved")
	require.NoError(t, err)
	require.True(t, listed)
	log := "saved/broker-1/orders-1/00000000000000000000.log"
	for name, tt := range map[string]struct {
		damage func(m *vfs.MemFS) error
		reason error
		dir    string
	}{
		"directory": {func(m *vfs.MemFS) error { return m.RemoveAll(filepath.Dir(log)) }, ErrRecordsMissing, "orders-1"},
		"segment":   {func(m *vfs.MemFS) error { return m.Remove(log) }, ErrRecordsMissing, "orders-1"},
		"tail": {func(m *vfs.MemFS) error {
			p, err := vfs.ReadFile(m, log)
			require.NoError(t, err)
			return vfs.WriteFile(m, log, p[:len(p)*4/5])
		}, ErrRecordsMissing, "orders-1"},
		"metadata": {func(m *vfs.MemFS) error { return m.RemoveAll("saved/broker-1/__cluster_metadata-0") }, ErrRecordsMissing, "__cluster_metadata-0"},
		"list's end": {func(m *vfs.MemFS) error {
			p, err := vfs.ReadFile(m, "saved/broker-1/"+evidenceFile)
			require.NoError(t, err)
			return vfs.WriteFile(m, "saved/broker-1/"+evidenceFile, p[:len(p)-10])
		}, ErrDamaged, "broker-1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := fsys.Kill()
			require.NoError(t, tt.damage(m))
			_, err := CheckBackup(m, "saved")
			var found *DirectoryError
			require.ErrorAs(t, err, &found)
			require.Equal(t, tt.dir, filepath.Base(found.Dir))
			require.ErrorIs(t, err, tt.reason)
			err = Restore(t.Context(), m, "saved", "copy")
			require.ErrorIs(t, err, tt.reason)
			require.ErrorContains(t, err, tt.dir)
			_, err = m.Stat("copy")
			require.Error(t, err, "nothing is written")
			if tt.dir != "orders-1" {
				return
			}
			again, err := Open(Config{FS: m, Dir: "saved"})
			require.NoError(t, err)
			defer func() { require.NoError(t, again.Close()) }()
			_, err = tryValues(t.Context(), again, at("orders", 1))
			require.ErrorContains(t, err, "orders-1")
			require.Len(t, values(t, again, at("orders", 0)), 5)
		})
	}
}

func TestBackupOfSeveralBrokersNamesThemAll(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	defer func() { require.NoError(t, c.Close()) }()
	create(t, c, "orders", 1, "min.insync.replicas", "1")
	produce(t, c, at("orders", 0), "x")
	require.NoError(t, c.Backup(t.Context(), "saved"))
	require.NoError(t, Restore(t.Context(), fsys, "saved", "copy"))
	require.NoError(t, fsys.RemoveAll("saved/broker-3"))
	require.ErrorIs(t, Restore(t.Context(), fsys, "saved", "other"), ErrMissing)
}

func TestBackupWithoutAListIsRestored(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	require.NoError(t, c.Backup(t.Context(), "saved"))
	opened := openWith(t, Config{FS: fsys, Dir: "saved"})
	require.NoError(t, opened.Close())
	listed, err := CheckBackup(fsys, "saved")
	require.NoError(t, err)
	require.False(t, listed, "it was opened since")
	require.NoError(t, fsys.Remove("saved/broker-1/"+evidenceFile))
	require.NoError(t, Restore(t.Context(), fsys, "saved", "copy"), "as earlier versions write it")
}

// A new file system has an empty lost+found, and may be mounted at the target of a backup or
// restore.
func TestBackupAndRestoreFillANewFileSystem(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	produce(t, c, at("orders", 0), "x")
	for _, dir := range []string{"saved", "copy", "used"} {
		require.NoError(t, fsys.MkdirAll(dir+"/lost+found", 0o700))
	}
	require.NoError(t, vfs.WriteFile(fsys, "used/lost+found/12", []byte("x")))
	require.NoError(t, c.Backup(t.Context(), "saved"))
	require.NoError(t, Restore(t.Context(), fsys, "saved", "copy"))
	require.ErrorIs(t, c.Backup(t.Context(), "used"), fs.ErrExist)
	require.Equal(t, []string{"x"}, values(t, openWith(t, Config{FS: fsys, Dir: "copy"}), at("orders", 0)))
}

func TestLinesOfAListAreSealed(t *testing.T) {
	p := copyList{brokers: []int32{1, 12}, logs: []listedLog{{"a-0", 3, 7}}}.encode()
	e := evidence{found: map[place]note{}}
	damaged, err := e.decode(p)
	require.NoError(t, err)
	require.Zero(t, damaged)
	require.Equal(t, copyList{[]int32{1, 12}, []listedLog{{"a-0", 3, 7}}}, e.list)
	lines := slices.Collect(strings.Lines(string(p)))
	e = evidence{found: map[place]note{}}
	damaged, err = e.decode([]byte(strings.Replace(lines[0], "7", "8", 1)))
	require.NoError(t, err)
	require.Equal(t, 1, damaged)
}
