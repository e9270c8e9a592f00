package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// otherFS is a file system of another package.
type otherFS struct{ vfs.FS }

// listFS is a file system that cannot be compared.
type listFS struct {
	vfs.FS
	_ []int
}

func TestNotesAreSharedByWhoShowsTheSameFiles(t *testing.T) {
	t.Parallel()
	mem := vfs.Mem()
	for name, same := range map[string][]vfs.FS{
		"memory":           {mem, vfs.Faulty(mem), vfs.NewSession(mem), vfs.ReadOnly(mem), vfs.NewSession(vfs.Faulty(mem))},
		"operating system": {vfs.OS(), vfs.OS(), vfs.Faulty(vfs.OS()), vfs.ReadOnly(vfs.OS())},
		"another":          {otherFS{mem}, otherFS{mem}, vfs.Faulty(otherFS{mem})},
	} {
		path := t.TempDir() + "/note"
		for _, writer := range same {
			vfs.SetNote(writer, path, []byte("lost"))
			for _, reader := range same {
				require.Equal(t, "lost", string(vfs.Note(reader, path)), name)
				require.Nil(t, vfs.Note(reader, path+"2"), name)
			}
			require.Nil(t, vfs.Note(vfs.Mem(), path), name)
			vfs.RemoveNote(same[0], path+"2")
			require.NotNil(t, vfs.Note(writer, path), name)
			vfs.RemoveNote(same[0], path)
			require.Nil(t, vfs.Note(writer, path), name)
		}
	}
	vfs.SetNote(listFS{FS: mem}, "/note", []byte("lost"))
	require.Nil(t, vfs.Note(listFS{FS: mem}, "/note"))
}

// TestNotesEndWithTheProcess: a clone and an ended session simulate a killed process.
func TestNotesEndWithTheProcess(t *testing.T) {
	t.Parallel()
	mem := vfs.Mem()
	session := vfs.NewSession(mem)
	vfs.SetNote(session, "/data/a/note", []byte("a"))
	vfs.SetNote(session, "/data/ab", []byte("b"))
	require.Nil(t, vfs.Note(mem.Kill(), "/data/a/note"))
	require.Nil(t, vfs.Note(mem.Crash(1), "/data/a/note"))
	session.End()
	vfs.SetNote(session, "/data/a/note", []byte("afterwards"))
	require.Equal(t, "a", string(vfs.Note(mem, "/data/a/note")))

	require.NoError(t, mem.MkdirAll("/data/a", 0o755))
	require.NoError(t, mem.PowerCut("/data/a", vfs.CrashOptions{}))
	require.Nil(t, vfs.Note(mem, "/data/a/note"), "what can be read after a power cut is on the disk")
	require.Equal(t, "b", string(vfs.Note(mem, "/data/ab")))
}
