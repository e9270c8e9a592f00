package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A wayIn opens the log in root/t-0. closeAll closes the log and everything else that the way
// opened.
type wayIn struct {
	name string
	open func(fsys vfs.FS, root string) (l *Log, closeAll func() error, err error)
}

func openAlone(fsys vfs.FS, dir string) (*Log, func() error, error) {
	l, err := Open(dir, Config{FS: fsys})
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}

// openThrough opens dir through a Directory of its own in root.
func openThrough(fsys vfs.FS, root, dir string) (*Log, func() error, error) {
	d, err := OpenDirectory(root, DirectoryConfig{FS: fsys})
	if err != nil {
		return nil, nil, err
	}
	l, err := Open(dir, Config{FS: fsys, Dir: d})
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return l, func() error { return errors.Join(l.Close(), d.Close()) }, nil
}

var waysIn = []wayIn{
	{"alone", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openAlone(fsys, filepath.Join(root, "t-0"))
	}},
	{"alone, with dots in the path", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openAlone(fsys, root+"/../"+filepath.Base(root)+"/./t-0/")
	}},
	{"through a Directory", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openThrough(fsys, root, filepath.Join(root, "t-0"))
	}},
	{"through a Directory elsewhere", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openThrough(fsys, filepath.Join(filepath.Dir(root), "elsewhere"), filepath.Join(root, "t-0"))
	}},
	{"through a Directory above", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openThrough(fsys, filepath.Dir(root), filepath.Join(root, "t-0"))
	}},
}

var waysInByLinks = []wayIn{
	{"alone, by a link to the log", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openAlone(fsys, filepath.Join(filepath.Dir(root), "link-to-log"))
	}},
	{"alone, by a link to the directory above", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openAlone(fsys, filepath.Join(filepath.Dir(root), "link-to-root", "t-0"))
	}},
	{"alone, by a relative name", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		wd, err := os.Getwd()
		if err != nil {
			return nil, nil, err
		}
		rel, err := filepath.Rel(wd, filepath.Join(root, "t-0"))
		if err != nil {
			return nil, nil, err
		}
		return openAlone(fsys, rel)
	}},
	{"through a Directory that is a link", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		link := filepath.Join(filepath.Dir(root), "link-to-root")
		return openThrough(fsys, link, filepath.Join(link, "t-0"))
	}},
	{"through a Directory that holds a link to the log", func(fsys vfs.FS, root string) (*Log, func() error, error) {
		return openThrough(fsys, filepath.Dir(root), filepath.Join(filepath.Dir(root), "link-to-log"))
	}},
}

func TestOneLogHasOneOwnerHoweverItIsOpened(t *testing.T) {
	for _, disk := range []string{"memory", "files"} {
		fsys, ways, base := vfs.FS(vfs.Mem()), waysIn, "/base"
		if disk == "files" {
			fsys, ways, base = vfs.OS(), append(ways[:len(ways):len(ways)], waysInByLinks...), t.TempDir()
		}
		root := filepath.Join(base, "root")
		require.NoError(t, fsys.MkdirAll(filepath.Join(root, "t-0"), 0o755))
		if disk == "files" {
			require.NoError(t, os.Symlink(root, filepath.Join(base, "link-to-root")))
			require.NoError(t, os.Symlink(filepath.Join(root, "t-0"), filepath.Join(base, "link-to-log")))
		}
		records := 0
		for _, first := range ways {
			for _, second := range ways {
				what := fmt.Sprintf("%s: first %s, then %s", disk, first.name, second.name)
				l, closeFirst, err := first.open(fsys, root)
				require.NoError(t, err, what)
				_, _, err = second.open(fsys, root)
				require.ErrorIs(t, err, ErrLocked, what)
				fill(t, l, 1)
				records++
				require.NoError(t, closeFirst(), what)
				l, closeSecond, err := second.open(fsys, root)
				require.NoError(t, err, what)
				require.EqualValues(t, records, l.EndOffset(), what)
				require.NoError(t, closeSecond(), what)
			}
		}
	}
}

func TestLogOpenedTwiceThroughOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	for _, fsys := range []vfs.FS{vfs.Mem(), vfs.OS()} {
		root := t.TempDir()
		d, err := OpenDirectory(root, DirectoryConfig{FS: fsys})
		require.NoError(t, err)
		open := func(name string) (*Log, error) { return Open(filepath.Join(root, name), Config{Dir: d}) }
		l, err := open("t-0")
		require.NoError(t, err)
		_, err = open("t-0")
		require.ErrorIs(t, err, ErrLocked)
		_, err = open("x/../t-0")
		require.ErrorIs(t, err, ErrLocked)
		if fsys == vfs.OS() {
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(root, link))
			_, err = Open(filepath.Join(link, "t-0"), Config{Dir: d})
			require.ErrorIs(t, err, ErrLocked)
		}
		other, err := open("t-1")
		require.NoError(t, err, "the other logs of the directory")
		require.NoError(t, other.Close())
		require.ErrorContains(t, d.Close(), "1 logs are open")
		fill(t, l, 3)
		require.NoError(t, l.Close())
		l, err = open("t-0")
		require.NoError(t, err)
		require.Len(t, values(t, l), 3)
		require.NoError(t, l.Remove())
		l, err = open("t-0") // Remove releases the lock, too
		require.NoError(t, err)
		require.Zero(t, l.EndOffset())
		require.NoError(t, l.Close())
		require.NoError(t, d.Close())
	}
}

// A log that is open alone cannot be opened through the Directory around it; the other logs there
// can.
func TestLogOpenAloneIsRefusedToItsDirectoryOnly(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	alone, err := Open("/root/t-0", Config{FS: disk})
	require.NoError(t, err)
	d, err := OpenDirectory("/root", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	_, err = Open("/root/t-0", Config{Dir: d})
	require.ErrorIs(t, err, ErrLocked)
	other, err := Open("/root/t-1", Config{Dir: d})
	require.NoError(t, err)
	fill(t, other, 1)
	fill(t, alone, 1)
	require.NoError(t, alone.Close())
	l, err := Open("/root/t-0", Config{Dir: d})
	require.NoError(t, err)
	require.EqualValues(t, 1, l.EndOffset())
	require.NoError(t, errors.Join(l.Close(), other.Close(), d.Close()))
}

// The directory is free again after a failed open, regardless of the operation that failed.
func TestFailedOpenLetsTheDirectoryGo(t *testing.T) {
	t.Parallel()
	for _, way := range waysIn {
		failed := 0
		for n := 0; ; n++ {
			disk := vfs.Faulty(vfs.Mem())
			l, closeAll, err := way.open(disk, "/base/root")
			require.NoError(t, err)
			fill(t, l, 3)
			require.NoError(t, closeAll())
			remove := disk.Inject(vfs.Fault{Err: errors.New("disk"), After: n})
			_, closeAll, err = way.open(disk, "/base/root")
			remove()
			if err == nil {
				require.NoError(t, closeAll())
				if n > 60 {
					break
				}
				continue
			}
			failed++
			l, closeAll, err = way.open(disk, "/base/root")
			require.NoError(t, err, "%s: after a failure at call %d", way.name, n)
			require.Len(t, values(t, l), 3)
			require.NoError(t, closeAll())
		}
		require.Greater(t, failed, 8, way.name)
	}
}

// Many opens at once, by all ways: no two succeed at the same time.
func TestOpensAtOnceNeverBothGetTheLog(t *testing.T) {
	t.Parallel()
	for _, fsys := range []vfs.FS{vfs.Mem(), vfs.OS()} {
		root := filepath.Join(t.TempDir(), "root")
		var inside, opened, refused, appended atomic.Int64
		var wg sync.WaitGroup
		for _, way := range waysIn {
			wg.Go(func() {
				for range 30 {
					l, closeAll, err := way.open(fsys, root)
					if err != nil {
						if !errors.Is(err, ErrLocked) {
							t.Errorf("%s: %v", way.name, err)
						}
						refused.Add(1)
						continue
					}
					if inside.Add(1) != 1 {
						t.Errorf("%s: another has the log open", way.name)
					}
					if _, err := l.Append(t.Context(), record.String("", "k", "v")); err != nil {
						t.Errorf("%s: %v", way.name, err)
					}
					appended.Add(1)
					opened.Add(1)
					inside.Add(-1)
					if err := closeAll(); err != nil {
						t.Errorf("%s: %v", way.name, err)
					}
				}
			})
		}
		wg.Wait()
		l, closeAll, err := waysIn[0].open(fsys, root)
		require.NoError(t, err)
		require.EqualValues(t, appended.Load(), l.EndOffset())
		require.NoError(t, closeAll())
		t.Logf("%d opened, %d refused", opened.Load(), refused.Load())
		require.Positive(t, opened.Load())
	}
}

const ownerEnv = "STRATA_TEST_LOG_OWNER" // number of the way, and the root

// TestLogOfAKilledProcessIsFreeHoweverItWasOpened runs this test binary again as the other
// process.
func TestLogOfAKilledProcessIsFreeHoweverItWasOpened(t *testing.T) {
	if what := os.Getenv(ownerEnv); what != "" {
		way, root, _ := strings.Cut(what, " ")
		_, _, err := waysIn[way[0]-'0'].open(vfs.OS(), root)
		fmt.Println("opened", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent exits
		return
	}
	for i, first := range waysIn {
		root := filepath.Join(t.TempDir(), "root")
		cmd := exec.Command(os.Args[0], "-test.run=^TestLogOfAKilledProcessIsFreeHoweverItWasOpened$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", ownerEnv, i, root))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		_, err = cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var answer string
		_, err = fmt.Fscanln(out, &answer, new(string))
		require.NoError(t, err)
		for _, second := range waysIn {
			_, _, err = second.open(vfs.OS(), root)
			require.ErrorIs(t, err, ErrLocked, "another process opened it %s, this one %s", first.name, second.name)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		for _, second := range waysIn {
			_, closeAll, err := second.open(vfs.OS(), root)
			require.NoError(t, err, "killed after it was opened %s, now %s", first.name, second.name)
			require.NoError(t, closeAll())
		}
	}
}

// A listed file system calls then once, after dir was listed.
type listed struct {
	vfs.FS
	dir  string
	then func()
}

func (f *listed) ReadDir(name string) ([]os.DirEntry, error) {
	entries, err := f.FS.ReadDir(name)
	if then := f.then; filepath.Clean(name) == f.dir && then != nil {
		f.then = nil
		then()
	}
	return entries, err
}

// A log is opened, written and closed after another open of it has listed its directory, at any
// operation. The other open either sees the record or fails.
func TestRecordOfALogThatClosesWhileAnotherOpensItIsKept(t *testing.T) {
	alone, throughDirectory := waysIn[0], waysIn[2] // the other ways differ only in their paths
	for _, first := range waysIn {
		for _, second := range []wayIn{alone, throughDirectory} {
			t.Run(first.name+", then "+second.name, func(t *testing.T) {
				for at, ended := 0, false; !ended; at++ {
					ended = openDuring(t, first, second, at)
				}
			})
		}
	}
}

// openDuring opens a log by the second way at an operation of the first way. It reports whether
// the first way had fewer operations.
func openDuring(t *testing.T, first, second wayIn, at int) (ended bool) {
	disk, root := vfs.Mem(), "/base/root"
	require.NoError(t, disk.MkdirAll(filepath.Join(root, "t-0"), 0o700))
	looked, closed, opened := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	open := func() {
		_, closeSecond, err := second.open(&listed{disk, filepath.Join(root, "t-0"), func() {
			close(looked)
			<-closed
		}}, root)
		if err == nil {
			err = closeSecond()
		}
		opened <- err
	}
	var operations atomic.Int64
	observed := vfs.Faulty(disk) // the second way does not use it
	observed.Observe(vfs.Observer{Before: func(vfs.Event) {
		if operations.Add(1) != int64(at)+1 {
			return
		}
		go open()
		select {
		case <-looked:
		case err := <-opened:
			opened <- err
		}
	}})
	l, closeFirst, err := first.open(observed, root)
	records := 0
	if err == nil {
		_, err = l.Append(t.Context(), record.String("", "k", "v"))
		require.NoError(t, err)
		records++
		err = closeFirst()
	}
	if err != nil {
		require.ErrorIs(t, err, ErrLocked, "operation %d", at) // both found the other one
	}
	close(closed)
	if ended = operations.Load() <= int64(at); !ended {
		if err := <-opened; err != nil {
			require.ErrorIs(t, err, ErrLocked, "operation %d", at)
		}
	}
	l, closeAll, err := second.open(disk, root)
	require.NoError(t, err)
	require.EqualValues(t, records, l.EndOffset(), "operation %d", at)
	require.NoError(t, closeAll())
	return ended
}
