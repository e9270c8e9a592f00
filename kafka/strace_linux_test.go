package kafka

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/topic"
)

// tracedDir names the directory to serve, in the process that is traced.
const tracedDir = "STRATA_TRACED_DIR"

// TestServeTraced is the process that TestSystemCallsSyncBeforeTheyAnswer traces: it
// serves until its standard input ends.
func TestServeTraced(t *testing.T) {
	dir := os.Getenv(tracedDir)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	cluster, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.CreateTopic(t.Context(), orderedTopic, topic.Config{
		Partitions: orderedPartitions, Properties: map[string]string{"segment.bytes": "1048576"},
	}))
	_, addr := serveCluster(t, cluster, Config{})
	fmt.Println("serving", addr)
	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
}

// Checklist row D14: the trace has the system calls of a serving process in their order. Before
// each answer is written to the socket, an fdatasync of the record's segment has ended. The
// segment's name is synced too.
func TestSystemCallsSyncBeforeTheyAnswer(t *testing.T) {
	if raceEnabled {
		t.Skip("takes minutes to read the trace, in one goroutine; the order of calls is the same")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	n, valueBytes := 500, 8<<10
	if os.Getenv("STRATA_LONG") != "" {
		n, valueBytes = 10_000, 4<<10
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-v", "-qq", "-xx", "-s", "4194304", "-o", trace,
		"-e", "trace=openat,mkdirat,mkdir,rename,renameat,renameat2,pwrite64,pwritev,write,writev,fsync,fdatasync",
		os.Args[0], "-test.run=^TestServeTraced$", "-test.v")
	cmd.Env = append(os.Environ(), tracedDir+"="+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	addr := ""
	for addr == "" && lines.Scan() {
		_, addr, _ = strings.Cut(lines.Text(), "serving ")
	}
	require.NotEmpty(t, addr, "the server did not start")
	produceMany(t, addr, 32, n, valueBytes)
	require.NoError(t, stdin.Close())
	_, err = io.Copy(io.Discard, stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())

	order := readTrace(t, trace, dir)
	require.Equal(t, n, order.answers)
	require.Empty(t, order.early)
	require.Greater(t, len(order.files), orderedPartitions, "segments rolled")
	t.Logf("%d answers, %d segments, %d syncs", order.answers, len(order.files), order.syncs)
}

var (
	// pid name(arguments) = result. Calls of other threads may cut it in two.
	callPattern    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	resumedPattern = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)$`)
	resultPattern  = regexp.MustCompile(`= (-?\d+)(<[^>]*>)?( E\w+ .*)?$`)
	stringPattern  = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	filePattern    = regexp.MustCompile(`^\d+<([^>]*)>`)
)

// readTrace reads the output of strace.
func readTrace(t *testing.T, name, root string) *syncOrder {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	order := newSyncOrder(root)
	under := map[string]func(result string){} // calls under way, by thread
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := resumedPattern.FindStringSubmatch(line); m != nil {
			if ended := under[m[1]]; ended != nil {
				ended(m[3])
			}
			delete(under, m[1])
			continue
		}
		m := callPattern.FindStringSubmatch(line)
		if m == nil {
			continue // a thread begins or ends
		}
		ended := beginCall(t, order, m[2], m[3])
		if strings.HasSuffix(line, "<unfinished ...>") {
			under[m[1]] = ended
			continue
		}
		ended(m[3])
	}
	require.NoError(t, lines.Err())
	return order
}

// beginCall records the start of a system call. The function it returns records the end.
func beginCall(t *testing.T, order *syncOrder, name, args string) (ended func(rest string)) {
	t.Helper()
	file := ""
	if m := filePattern.FindStringSubmatch(args); m != nil {
		file = unescape(t, m[1])
	}
	strs := stringPattern.FindAllStringSubmatch(args, -1)
	then := func(string) {}
	switch name {
	case "openat", "mkdirat", "mkdir":
		if len(strs) > 0 && (name != "openat" || strings.Contains(args, "O_CREAT")) {
			then = func(string) { order.made(unescape(t, strs[0][1])) }
		}
	case "rename", "renameat", "renameat2":
		require.Len(t, strs, 2, args)
		then = func(string) { order.renamed(unescape(t, strs[0][1]), unescape(t, strs[1][1])) }
	case "pwrite64", "pwritev":
		then = func(string) { order.wrote(file, payload(t, strs)) }
	case "fsync", "fdatasync":
		synced := order.syncing(file)
		then = func(string) { synced() }
	case "write", "writev":
		if strings.HasPrefix(file, "socket:") {
			require.NoError(t, order.answering(file, payload(t, strs)))
		}
	}
	return func(rest string) {
		if m := resultPattern.FindStringSubmatch(rest); m != nil && !strings.HasPrefix(m[1], "-") {
			then(rest)
		}
	}
}

// payload returns the bytes that a write or a vectored write received.
func payload(t *testing.T, strs [][]string) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, s := range strs {
		all.WriteString(unescape(t, s[1]))
	}
	return all.Bytes()
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	if !strings.Contains(s, `\x`) {
		return s
	}
	p, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	require.NoError(t, err)
	return string(p)
}
