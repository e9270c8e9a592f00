package vfs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

const lockChild = "VFS_TEST_LOCK"

// TestLockEndsWithTheProcess takes a lock in a second process, finds it in this one, and kills the
// second process.
func TestLockEndsWithTheProcess(t *testing.T) {
	if name := os.Getenv(lockChild); name != "" {
		_, err := vfs.OS().Lock(name)
		fmt.Println("locked", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent exits
		return
	}
	name := t.TempDir() + "/lock"
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockEndsWithTheProcess$")
	cmd.Env = append(os.Environ(), lockChild+"="+name)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked <nil>\n", line)
	_, err = vfs.OS().Lock(name)
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	l, err := vfs.OS().Lock(name)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
}

func TestBootIDIsKnownOnLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux promises one")
	}
	require.Len(t, vfs.OS().BootID(), 36)
}

func TestWritevDoesNotAllocateMuch(t *testing.T) {
	f, err := vfs.OS().OpenFile(t.TempDir()+"/f", readWriteCreate, 0o644)
	require.NoError(t, err)
	defer f.Close()
	bufs := make([][]byte, 4)
	allocs := testing.AllocsPerRun(100, func() {
		for i := range bufs {
			bufs[i] = block512[:]
		}
		_, err = f.WritevAt(bufs, 0)
	})
	require.NoError(t, err)
	require.LessOrEqual(t, allocs, 1.0)
}

var block512 [512]byte
