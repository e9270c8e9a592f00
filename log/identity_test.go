package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// The files of a log are not opened as another log, regardless of the directory they are in.
func TestIdentityStaysWithTheFilesOfALog(t *testing.T) {
	t.Parallel()
	change := func(cfg Config, dir string, do func(l *Log) error) {
		l, err := Open(dir, cfg)
		require.NoError(t, err)
		require.NoError(t, do(l))
		fillLog(t, l, 2)
		require.NoError(t, l.Close())
	}
	for name, do := range map[string]func(l *Log) error{
		"closed":         func(*Log) error { return nil },
		"rolled":         (*Log).Roll,
		"truncated":      func(l *Log) error { return l.TruncateTo(1) },
		"begun anew":     func(l *Log) error { return l.TruncateFully(7) },
		"without a name": func(l *Log) error { return l.DeleteRecords(1) },
		"in a backup":    nil,
	} {
		disk := vfs.Mem()
		if name == "in a backup" {
			do = func(l *Log) error { return l.Backup(t.Context(), disk, "copy") }
		}
		cfg := Config{FS: disk, Identity: 7}
		change(cfg, "log", func(*Log) error { return nil })
		dir := "log"
		switch name {
		case "without a name":
			change(Config{FS: disk}, dir, do)
		case "in a backup":
			change(cfg, dir, do)
			dir = "copy"
		default:
			change(cfg, dir, do)
		}
		killed := disk.Kill()
		for _, disk := range []*vfs.MemFS{disk, killed} {
			_, err := Open(dir, Config{FS: disk, Identity: 8})
			require.ErrorIs(t, err, ErrOtherLog, name)
			_, err = PlanRecovery(dir, Config{FS: disk, Identity: 8})
			require.ErrorIs(t, err, ErrOtherLog, name)
		}
		change(Config{FS: disk, Identity: 7, IdentityRequired: true}, dir, func(*Log) error { return nil })
	}
}

func TestStateWithoutAnIdentityIsNotOpenedWhereOneIsRequired(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	fillLog(t, l, 1)
	require.NoError(t, l.Close())
	_, err = Open("log", Config{FS: disk, Identity: 8, IdentityRequired: true})
	require.ErrorIs(t, err, ErrOtherLog)
	l, err = Open("log", Config{FS: disk, Identity: 8})
	require.NoError(t, err)
	fillLog(t, l, 1)
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: disk, Identity: 8, IdentityRequired: true})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, err = Open("new", Config{FS: vfs.Mem(), Identity: 8, IdentityRequired: true})
	require.NoError(t, err, "there is nothing that could be another log's")
	require.NoError(t, l.Close())
}
