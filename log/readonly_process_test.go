package log

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// busyProcessEnv makes this test binary a process that writes: the index in busyWriters and the
// log's directory.
const busyProcessEnv = "STRATA_TEST_BUSY_WRITER"

// livesFile is the file beside the log's directory in which the process writes the life of each
// value.
const livesFile = "lives.json"

// A writtenLife is a life in livesFile.
type writtenLife struct {
	Offset   int64
	Value    string
	From, To int
}

// busyProcess writes until its standard input ends.
func busyProcess(kind int, dir string) error {
	k := busyWriters[kind]
	w := &busyWriter{cfg: k.cfg, dir: dir, ops: k.ops, rnd: rand.New(rand.NewPCG(uint64(kind), 11)), values: map[int64]map[string]*life{}, latest: map[string][]int64{}}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	fmt.Println("writing")
	if err := w.run(stop); err != nil {
		return err
	}
	var lives []writtenLife
	for offset, values := range w.values {
		for value, v := range values {
			lives = append(lives, writtenLife{offset, value, v.from, v.to})
		}
	}
	p, err := json.Marshal(lives)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(dir), livesFile), p, 0o644)
}

// TestReadOnlyOpensBesideAnotherProcess opens a log that another process writes to, rolls,
// compacts, truncates, deletes from and reopens. Each log that is read was there, as a whole, at
// some moment, or a read returns ErrChanged. No open fails.
func TestReadOnlyOpensBesideAnotherProcess(t *testing.T) {
	if env := os.Getenv(busyProcessEnv); env != "" {
		var kind int
		var dir string
		_, err := fmt.Sscan(env, &kind, &dir)
		require.NoError(t, err)
		require.NoError(t, busyProcess(kind, dir))
		return
	}
	for i, kind := range busyWriters {
		t.Run(kind.name, func(t *testing.T) {
			dir := filepath.Join(quickDir(t), "t-0")
			cmd := exec.Command(os.Args[0], "-test.run=^TestReadOnlyOpensBesideAnotherProcess$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", busyProcessEnv, i, dir))
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var ready string
			_, err = fmt.Fscanln(out, &ready)
			require.NoError(t, err)

			var views [][]record.Record
			changed, wanted := 0, viewCount(t, sampled(200, 50))
			// values: until the process has had the time to change something
			met := map[string]bool{}
			for len(views) < wanted || len(met) < 50 {
				l, err := OpenReadOnly(dir, Config{})
				if len(views) == 0 && errors.Is(err, fs.ErrNotExist) { // the process has not begun
					continue
				}
				require.NoError(t, err)
				seen, all := seenRecords(t, l)
				if !all {
					changed++
				}
				views = append(views, seen)
				for _, r := range seen {
					met[string(r.Value)] = true
				}
				require.NoError(t, l.Close())
			}
			require.NoError(t, in.Close())
			rest, err := io.ReadAll(out)
			require.NoError(t, err)
			require.NoError(t, cmd.Wait(), string(rest))

			w := livesOf(t, filepath.Join(filepath.Dir(dir), livesFile))
			for _, seen := range views {
				w.checkOneMoment(t, seen)
			}
			t.Logf("%d opens, %d values, %d ended with ErrChanged", len(views), len(w.values), changed)
		})
	}
}

// seenRecords reads all of a log. all is false if it changed during the read.
func seenRecords(t *testing.T, l *Log) (seen []record.Record, all bool) {
	next := l.StartOffset()
	for r, err := range l.Records(next) {
		if errors.Is(err, ErrChanged) {
			return seen, false
		}
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Offset, next)
		next = r.Offset + 1
		seen = append(seen, r)
	}
	return seen, true
}

// livesOf reads livesFile.
func livesOf(t *testing.T, name string) *busyWriter {
	p, err := os.ReadFile(name)
	require.NoError(t, err)
	var lives []writtenLife
	require.NoError(t, json.Unmarshal(p, &lives))
	w := &busyWriter{values: map[int64]map[string]*life{}}
	for _, v := range lives {
		if w.values[v.Offset] == nil {
			w.values[v.Offset] = map[string]*life{}
		}
		w.values[v.Offset][v.Value] = &life{v.From, v.To}
	}
	return w
}

// Other files in the directory, and symbolic links to segments, make no difference to a reader.
func TestReadOnlyOpenAmongForeignFilesAndLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, elsewhere := filepath.Join(root, "t-0"), filepath.Join(root, "elsewhere")
	l, err := Open(dir, Config{SegmentBytes: 500})
	require.NoError(t, err)
	fill(t, l, 40)
	want, segments := values(t, l), l.Segments()
	require.Greater(t, len(segments), 3)
	require.NoError(t, os.MkdirAll(elsewhere, 0o755))
	moved := filePath(dir, segments[0].BaseOffset, ".log")
	require.NoError(t, l.Close())
	require.NoError(t, os.Rename(moved, filepath.Join(elsewhere, "first")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "first"), moved), "a segment on another disk")
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "nothing"), filepath.Join(dir, "dangling.log")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "itself")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "00000000000000099999.log"), 0o700))
	for _, name := range []string{"README", "core.1234", "1.log", "00000000000000000001.log.bak", "00000000000000000003.log" + recovery.AsideSuffix, "99999999999999999999.log"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("not ours"), 0o600))
	}
	require.NoError(t, os.Symlink(dir, filepath.Join(root, "link")))
	for _, path := range []string{dir, filepath.Join(root, "link"), dir + "/../t-0/."} {
		ro, err := OpenReadOnly(path, Config{})
		require.NoError(t, err, path)
		require.Equal(t, want, values(t, ro), path)
		require.NoError(t, ro.Close())
	}
	l, err = Open(dir, Config{})
	require.NoError(t, err)
	require.Equal(t, want, values(t, l), "and so it is to a writer")
	require.NoError(t, l.Close())
}

// A reader without permission to read a file gets an error with the file's name, for any file. No
// file is replaced by a guess.
func TestReadOnlyOpenWithoutPermissionSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("/root/t-0", Config{FS: disk, SegmentBytes: 500})
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(1))
	fill(t, l, 40)
	require.NoError(t, l.SetLeaderEpoch(2))
	fill(t, l, 1)
	segments := l.Segments()
	for _, name := range []string{stateFile, epochFile, filepath.Base(filePath("", segments[0].BaseOffset, ".log")), filepath.Base(filePath("", segments[len(segments)-1].BaseOffset, ".log"))} {
		reader := vfs.Faulty(disk)
		reader.Inject(vfs.Fault{Ops: vfs.OpOpen, Pattern: name, Times: vfs.Always, Err: fs.ErrPermission})
		_, err := OpenReadOnly("/root/t-0", Config{FS: reader})
		require.ErrorIs(t, err, fs.ErrPermission, name)
		require.ErrorContains(t, err, name)
	}
	reader := vfs.Faulty(disk)
	reader.Inject(vfs.Fault{Ops: vfs.OpReadDir, Times: vfs.Always, Err: fs.ErrPermission})
	_, err = OpenReadOnly("/root/t-0", Config{FS: reader})
	require.ErrorIs(t, err, fs.ErrPermission)

	// A reader of the log does not need the files beside it.
	reader = vfs.Faulty(disk)
	for _, name := range []string{cleanShutdownFile, recoveryPointFile, logStartFile, lockFile, journalFile} {
		reader.Inject(vfs.Fault{Ops: vfs.OpOpen | vfs.OpStat, Pattern: name, Times: vfs.Always, Err: fs.ErrPermission})
	}
	ro, err := OpenReadOnly("/root/t-0", Config{FS: reader})
	require.NoError(t, err)
	require.Len(t, values(t, ro), 41)
	// Permission is withdrawn while the log is open: a read cannot check any more whether the log
	// was truncated.
	reader.Inject(vfs.Fault{Ops: vfs.OpOpen, Pattern: stateFile, Err: fs.ErrPermission})
	_, err = ro.Read(nil, 0, 100)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Len(t, values(t, ro), 41)
	require.NoError(t, errors.Join(ro.Close(), l.Close()))
}
