package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// A terminal is a pseudo-terminal whose output the test reads.
type terminal struct {
	tty  *os.File // the side to which a program writes
	shut chan string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	term := &terminal{tty, make(chan string, 1)}
	go func() {
		var seen bytes.Buffer
		_, _ = seen.ReadFrom(screen) // fails once the terminal is closed
		screen.Close()
		term.shut <- seen.String()
	}()
	return term
}

// shown closes the terminal, and returns all its output.
func (x *terminal) shown() string {
	x.tty.Close()
	return <-x.shut
}

// longWork runs a command on a copy of log whose files open slowly. Its stderr is errs.
func longWork(t *testing.T, errs *os.File, args ...string) (out string) {
	t.Helper()
	var buf bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		require.NoError(t, filepath.WalkDir("log", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return errors.Join(err, disk.MkdirAll(name, 0o755))
			}
			p, err := os.ReadFile(name)
			return errors.Join(err, vfs.WriteFile(disk, name, p))
		}))
		disk.Inject(vfs.Fault{Ops: vfs.OpOpen, Delay: 150 * time.Millisecond, Times: vfs.Always})
		a := &app{streams: streams{nil, &buf, errs}, fs: disk, w: newWriter(&buf)}
		root := a.root()
		root.SetArgs(args)
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.NoError(t, a.w.Flush())
	})
	return buf.String()
}

func TestTerminalIsShownHowFarLongWorkIs(t *testing.T) {
	inKafkaDirectory(t)
	for want, args := range map[string][]string{
		`\d+s: \d+ partitions, \d+ segments, .* 0 damaged; at log/`: {"verify", "log"},
		` *\d+% of \d+\.\d KiB  \S+-\d`:                             {"import", "--from", "log", "--dir", "data", "--allow-missing"},
		`\d+ of \d+ files; log/`:                                    {"dump", "log"},
	} {
		term := newTerminal(t)
		out := longWork(t, term.tty, args...)
		shown := term.shown()
		require.Regexp(t, `^(\r\x1b\[K`+want+`[^\r]*)+\r\x1b\[K$`, shown, args)
		require.NotContains(t, out, "\x1b")

		file, err := os.Create(filepath.Join(t.TempDir(), "errors"))
		require.NoError(t, err)
		require.Equal(t, out, longWork(t, file, args...), args)
		require.NoError(t, file.Close())
		quiet, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Empty(t, string(quiet), "%v: nobody looks", args)
	}
}

func TestShortWorkShowsNothing(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	tell, done := showProgress(&out, func() time.Time { return now })
	text := func(s string) func() string { return func() string { return s } }
	tell(text("a"))
	done()
	require.Empty(t, out.String(), "a quick one shows nothing")
	now = now.Add(time.Second)
	tell(text("b"))
	tell(text("c"))
	require.Equal(t, "\r\x1b[Kb", out.String())
	done()
	require.Equal(t, "\r\x1b[Kb\r\x1b[K", out.String())
}

func TestTopIsAPageOnATerminal(t *testing.T) {
	b := serveOrders(t, "a b c", "x")
	require.Equal(t, exitOK, command(t, "", append([]string{"topics", "create", "idle"}, b...)...).code)
	require.Equal(t, exitOK, command(t, "", append([]string{"groups", "reset", "billing", "--topic", "orders", "--to", "1"}, b...)...).code)
	term := newTerminal(t)
	c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"top", "--interval", "50ms", "--count", "2", "--rows", "1"}, b...)...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.Stdout = term.tty
	require.NoError(t, c.Run())
	pages := strings.Split(term.shown(), "\x1b[H\x1b[2J")
	require.Len(t, pages, 3)
	require.Empty(t, pages[0])
	for _, page := range pages[1:] {
		page = strings.ReplaceAll(page, "\r\n", "\n")
		require.Regexp(t, `^\S+Z  topics 1 of 2, groups 1 of 1\n\nTOPIC +OFFSETS/S +OFFSETS +PARTITIONS *\n\S+ +0.0 +\d +2 *\n\n`+
			`GROUP +LAG +OFFSETS/S +CAUGHT UP IN +STATE +MEMBERS *\nbilling +2 +0.0 +- +Empty +0 *\n$`, page)
	}
}
