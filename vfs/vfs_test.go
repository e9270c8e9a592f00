package vfs_test

import (
	"testing"

	"github.com/stratalog/strata/vfs"
	"github.com/stratalog/strata/vfs/vfstest"
)

func TestOSConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS(), t.TempDir() })
}

func TestMemConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		m := vfs.Mem()
		if err := m.MkdirAll("/data", 0o755); err != nil {
			t.Fatal(err)
		}
		return m, "/data"
	})
}

func TestFaultyConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.Faulty(vfs.OS()), t.TempDir() })
}

func TestCrashedMemConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		m := vfs.Mem()
		if err := vfs.MakeDir(m, "/data", 0o755); err != nil {
			t.Fatal(err)
		}
		return m.Kill().Crash(1), "/data"
	})
}

func TestReadOnlyRefusesEveryChange(t *testing.T) {
	t.Run("OS", func(t *testing.T) { vfstest.RunReadOnly(t, vfs.OS(), t.TempDir(), vfs.ReadOnly) })
	t.Run("Mem", func(t *testing.T) {
		m := vfs.Mem()
		if err := m.MkdirAll("/data", 0o755); err != nil {
			t.Fatal(err)
		}
		vfstest.RunReadOnly(t, m, "/data", vfs.ReadOnly)
	})
}
