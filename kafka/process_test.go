package kafka

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
)

// serveVariable names the directory that this test binary serves when it is started again. The
// tests measure a server in such a process.
const serveVariable = "STRATA_TEST_SERVE"

// longVariable makes the tests with a time limit run in full.
const longVariable = "STRATA_TEST_LONG"

// usage is the resource usage that childMain reports for each line of its input.
type usage struct {
	rss, peak int // kilobytes resident, now and at most
	heap      int // kilobytes of the Go heap in use, after a collection
	sockets   int
	routines  int
}

// childMain serves a directory until its standard input ends. It reports its usage for each input
// line.
func childMain(dir string) error {
	cluster, err := strata.Open(strata.Config{Dir: dir})
	if err != nil {
		return err
	}
	s := NewServer(cluster, Config{Limits: Limits{Connections: 20_000}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go s.Serve(cluster.Controller(), ln)
	fmt.Println(ln.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		rss, peak := resident()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		s.mu.Lock()
		sockets := len(s.conns)
		s.mu.Unlock()
		if lines.Text() == "reset" {
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
				return err
			}
		}
		fmt.Println(rss, peak, m.HeapAlloc>>10, sockets, runtime.NumGoroutine())
	}
	return s.Close()
}

// resident returns the resident memory of this process and its peak, in kilobytes.
func resident() (rss, peak int) {
	status, _ := os.ReadFile("/proc/self/status")
	for l := range strings.Lines(string(status)) {
		fmt.Sscanf(l, "VmHWM: %d kB", &peak)
		fmt.Sscanf(l, "VmRSS: %d kB", &rss)
	}
	return rss, peak
}

// process is a server in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	addr  string
	ended bool
}

func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), serveVariable+"="+dir, "GOGC=", "GOMEMLIMIT=")
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	p.addr = p.line()
	return p
}

func (p *process) line() string {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "the server's process ended")
	return p.out.Text()
}

// usage returns the process's usage. The line "reset" sets the peak to the current value.
func (p *process) usage(line string) (u usage) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
	_, err = fmt.Sscan(p.line(), &u.rss, &u.peak, &u.heap, &u.sockets, &u.routines)
	require.NoError(p.t, err)
	return u
}

// kill ends the process with SIGKILL, as a crash does.
func (p *process) kill() {
	if p.ended {
		return
	}
	p.ended = true
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.in.Close()
}
