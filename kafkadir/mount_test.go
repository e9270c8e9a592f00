package kafkadir

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// A mount point cannot be renamed or removed. Import and Export fill an empty one. A crash before
// the move of the last name leaves a directory that neither a broker nor Strata accepts as
// complete.
func TestImportAndExportFillAMountPoint(t *testing.T) {
	disk := fill(t)
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	want := look(t, disk.Kill(), "data")
	for name, what := range map[string]struct {
		dir, last string
		run       func(fsys vfs.FS) error
	}{
		"import": {"back", "back/broker-1", func(fsys vfs.FS) error {
			_, err := Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: "back", FS: fsys})
			return err
		}},
		"export": {"out", "out/meta.properties", func(fsys vfs.FS) error {
			_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "out", FS: fsys})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := disk.Kill()
			require.NoError(t, disk.MkdirAll(what.dir, 0o755))
			mount := &mountFS{MemFS: disk, dir: what.dir, failing: what.last}
			require.ErrorIs(t, what.run(mount), syscall.EIO)
			entries, err := disk.ReadDir(what.dir)
			require.NoError(t, err)
			require.Empty(t, entries, "a failed attempt leaves nothing, and can be repeated")
			mount.failing = ""
			require.NoError(t, disk.MkdirAll(filepath.Join(what.dir, "lost+found"), 0o700), "as a new file system has it")

			var cuts []*vfs.MemFS
			stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
				if e.Op == vfs.OpRename && strings.HasPrefix(e.Name, filepath.Join(what.dir, unfinishedSuffix)+"/") && filepath.Dir(e.NewName) == what.dir {
					cuts = append(cuts, disk.Kill(), disk.Crash(uint64(len(cuts))))
				}
			}})
			require.NoError(t, what.run(mount))
			stop()
			require.NotEmpty(t, cuts)
			for _, cut := range cuts {
				_, err := cut.Stat(what.last)
				require.Error(t, err, "what makes the rest valid comes last")
			}
			cut := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			_, err = cut.Stat(filepath.Join(what.dir, unfinishedSuffix))
			require.Error(t, err)
			if name == "export" {
				_, err := Import(t.Context(), ImportConfig{From: []string{"out"}, Dir: "back", FS: cut})
				require.NoError(t, err)
			}
			require.Equal(t, want.logs, look(t, cut, "back").logs)
		})
	}
}

// The temporary directory beside the final one has a longer name.
func TestImportAndExportMakeADirectoryWithTheLongestName(t *testing.T) {
	disk := fill(t)
	name := strings.Repeat("n", 255)
	limited := &mountFS{MemFS: disk}
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: name, FS: limited})
	require.NoError(t, err)
	require.NoError(t, disk.Rename(name, "kafka"))
	_, err = Import(t.Context(), ImportConfig{From: []string{"kafka"}, Dir: name, FS: limited})
	require.NoError(t, err)
}

// mountFS has a directory that is a mount point, and refuses names of more than 255 bytes.
type mountFS struct {
	*vfs.MemFS
	dir     string
	failing string // the destination of a Rename that fails
}

func (m *mountFS) Rename(oldname, newname string) error {
	if oldname == m.dir || newname == m.dir {
		return syscall.EBUSY
	}
	if newname == m.failing {
		return syscall.EIO
	}
	return m.MemFS.Rename(oldname, newname)
}

func (m *mountFS) Remove(name string) error {
	if name == m.dir {
		return syscall.EBUSY
	}
	return m.MemFS.Remove(name)
}

func (m *mountFS) MkdirAll(name string, perm fs.FileMode) error {
	if len(filepath.Base(name)) > 255 {
		return syscall.ENAMETOOLONG
	}
	return m.MemFS.MkdirAll(name, perm)
}
