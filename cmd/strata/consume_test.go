package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// command runs a command as a process of its own.
func command(t *testing.T, in string, args ...string) result {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.Stdin = strings.NewReader(in)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

// following is a command that runs until it is interrupted.
type following struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader

	mu   sync.Mutex // guards errs
	errs bytes.Buffer
}

func (f *following) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs.Write(p)
}

func (f *following) stderr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs.String()
}

func follow(t *testing.T, args ...string) *following {
	t.Helper()
	f := &following{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	f.cmd.Env = append(os.Environ(), asProgram+"=1")
	f.cmd.Stderr = f
	out, err := f.cmd.StdoutPipe()
	require.NoError(t, err)
	f.out = bufio.NewReader(out)
	require.NoError(t, f.cmd.Start())
	return f
}

func (f *following) line() string {
	f.t.Helper()
	line, err := f.out.ReadString('\n')
	if err != nil {
		_ = f.cmd.Wait()
		require.Fail(f.t, "no line", f.stderr())
	}
	return strings.TrimSuffix(line, "\n")
}

func (f *following) interrupt() {
	f.t.Helper()
	rest, err := f.signalled(os.Interrupt)
	require.NoError(f.t, err, f.stderr())
	require.Empty(f.t, rest)
}

// signalled sends a signal. It returns the output since the last line read, and the exit error.
func (f *following) signalled(s os.Signal) (rest string, err error) {
	f.t.Helper()
	require.NoError(f.t, f.cmd.Process.Signal(s))
	p, err := io.ReadAll(f.out)
	return string(p), errors.Join(err, f.cmd.Wait())
}

// serveOrders serves the topic orders with the given values, a partition for each list.
func serveOrders(t *testing.T, parts ...string) (b []string) {
	t.Helper()
	p := start(t, "--memory", "--set", "num.partitions="+string(rune('0'+len(parts))))
	for i, values := range parts {
		args := append([]string{"produce", "orders", "--partition", string(rune('0' + i)), "-b", p.addr}, strings.Fields(values)...)
		require.Equal(t, exitOK, strataRun(t, args...).code)
	}
	return []string{"-b", p.addr}
}

func TestConsumeFromAnOffsetThatIsNotThereSaysSo(t *testing.T) {
	b := serveOrders(t, "a b c d")
	for _, args := range [][]string{{"--from", "99"}, {"--from", "99", "-f"}, {"--from", "5"}} {
		r := command(t, "", append(append([]string{"consume", "orders"}, args...), b...)...)
		require.Equal(t, exitFailed, r.code)
		require.Empty(t, r.out)
		require.Equal(t, "strata: --from "+args[1]+": orders-0 has offsets 0 to 3\n", r.err)
	}
	// the end is the offset of the next record
	r := command(t, "", append([]string{"consume", "orders", "--from", "4"}, b...)...)
	require.Equal(t, result{}, r)
	f := follow(t, append([]string{"consume", "orders", "--from", "4", "-f", "--values"}, b...)...)
	require.Equal(t, exitOK, strataRun(t, append([]string{"produce", "orders", "e"}, b...)...).code)
	require.Equal(t, "e", f.line())
	f.interrupt()
	require.Empty(t, f.stderr())
}

func TestConsumeFromAnOffsetThatSomePartitionsHave(t *testing.T) {
	b := serveOrders(t, "a b c d", "x")
	args := append([]string{"consume", "orders", "--from", "3", "--values"}, b...)
	require.Equal(t, result{exitOK, "d\n", "strata: orders-1 ends at 1: skipped\n"}, command(t, "", args...))
	f := follow(t, append(args, "-f")...)
	require.Equal(t, "d", f.line())
	require.Equal(t, exitOK, strataRun(t, append([]string{"produce", "orders", "y", "--partition", "1"}, b...)...).code)
	require.Equal(t, "y", f.line())
	f.interrupt()
	require.Equal(t, "strata: orders-1 ends at 1: reading from there\n", f.stderr())
}

func TestConsumeInAGroupBeginsWhereFromSays(t *testing.T) {
	b := serveOrders(t, "a b c d")
	args := append([]string{"consume", "orders", "--group", "g", "--from", "2", "--max", "1", "--values"}, b...)
	require.Equal(t, result{exitOK, "c\n", ""}, command(t, "", args...))
	// Now the group's own offset counts.
	require.Equal(t, result{exitOK, "d\n", ""}, command(t, "", args...))
}

func TestConsumePartOfTopics(t *testing.T) {
	b := serveOrders(t, "a b c d", "x y")
	require.Equal(t, exitOK, strataRun(t, append([]string{"produce", "other", "o", "--partition", "0"}, b...)...).code)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"orders", "--partition", "0", "--from", "1", "--to", "3"}, "b\nc\n"},
		{[]string{"orders", "--partition", "0", "--to", "99"}, "a\nb\nc\nd\n"},
		{[]string{"orders", "--partition", "0", "--to", "0"}, ""},
		{[]string{"orders", "--partition", "0", "--last", "2"}, "c\nd\n"},
		{[]string{"orders", "--partition", "1", "--last", "9"}, "x\ny\n"},
		{[]string{"orders", "other", "--partition", "0", "--from", "3"}, "d\n"},
	} {
		r := command(t, "", append(append([]string{"consume", "--values"}, c.args...), b...)...)
		require.Equal(t, exitOK, r.code, r.err)
		require.Equal(t, c.want, r.out, c.args)
	}
	r := command(t, "", append([]string{"consume", "orders", "other", "--last", "1", "--format", `%t/%p@%o=%v;`}, b...)...)
	require.ElementsMatch(t, []string{"orders/0@3=d", "orders/1@1=y", "other/0@0=o", ""}, strings.Split(r.out, ";"), r.err)
	for _, args := range [][]string{
		{"--to", "3", "-f"}, {"--to", "x"}, {"--group", "g", "--max", "1", "--to", "3"}, {"--group", "g", "--max", "1", "--last", "3"}, {"--from", "1", "--last", "1"},
		{"--format", "%"}, {"--format", "%v", "--values"}, {"--format", "%v", "--json"}, {"--last", "-1"}, {"--max", "-1"},
	} {
		r := command(t, "", append(append([]string{"consume", "orders"}, args...), b...)...)
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.err)
	}
}

func TestConsumeFollowTellsThatTheBrokerGoesAndComes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "one", "-b", p.addr).code)
	f := follow(t, "consume", "orders", "-f", "--values", "-b", p.addr)
	require.Equal(t, "one", f.line())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Eventually(t, func() bool { return strings.Contains(f.stderr(), "no broker at "+p.addr) }, time.Minute, 10*time.Millisecond)
	again := start(t, "--dir", dir, "--listen", p.addr)
	require.Equal(t, p.addr, again.addr)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "two", "-b", p.addr).code)
	require.Equal(t, "two", f.line())
	require.Eventually(t, func() bool { return strings.Contains(f.stderr(), "the broker at "+p.addr+" is back") }, time.Minute, 10*time.Millisecond)
	f.interrupt()
	require.Equal(t, 2, strings.Count(f.stderr(), "\n"), f.stderr()) // each once
}

func TestProduceShowsWhatWasWrittenBeforeTheNextLineComes(t *testing.T) {
	p := start(t, "--memory")
	c := exec.CommandContext(t.Context(), os.Args[0], "produce", "orders", "-b", p.addr)
	c.Env = append(os.Environ(), asProgram+"=1")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewReader(out)
	for _, want := range []string{"orders-0@0\n", "orders-0@1\n"} {
		_, err = io.WriteString(in, "x\n")
		require.NoError(t, err)
		got, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.NoError(t, in.Close())
	require.NoError(t, c.Wait())
}

func TestProduceRefusesJSONThatMeansSomethingElse(t *testing.T) {
	p := start(t, "--memory")
	for in, want := range map[string]string{
		`{"vaule":"x"}`:                           `unknown field "vaule"`,
		`{}`:                                      "no value",
		`{"key":"k"}`:                             "no value",
		`{"value":"x"} {"value":"y"}`:             "unexpected text after the object",
		`{"value":"x","headers":[{"Name":"x"}]}`:  `unknown field "Name"`,
		`{"value":{"base64":"AA==","x":1}}`:       "is not a string, null or",
		"{\"value\":\"\xff\"}":                    "UTF-8",
		`{"value":"x","timestamp":-5}`:            "timestamp -5",
		`{"value":"x","timestamp":9223372036855}`: "timestamp 9223372036855",
		`{"value":"x","partition":-7}`:            "partition -7",
	} {
		r := command(t, `{"value":"good"}`+"\n"+in+"\n", "produce", "orders", "--input", "json", "-b", p.addr)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.err, "line 2: ")
		require.Contains(t, r.err, want)
	}
	r := command(t, `{"key":"k","value":null}`+"\n", "produce", "tombs", "--input", "json", "-b", p.addr)
	require.Equal(t, exitOK, r.code, r.err)
	r = command(t, "", "consume", "tombs", "--json", "-b", p.addr)
	require.Contains(t, r.out, `"value":null`)
}

func TestCopyOfATopicWithOtherPartitions(t *testing.T) {
	b := serveOrders(t, "a b", "c", "d")
	require.Equal(t, exitOK, strataRun(t, append([]string{"topics", "create", "copy", "--partitions", "1"}, b...)...).code)
	lines := strataRun(t, append([]string{"consume", "orders", "--json"}, b...)...).out
	r := command(t, lines, append([]string{"produce", "copy", "--input", "json"}, b...)...)
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `copy, line \d: `, r.err)
	require.Equal(t, exitOK, strataRun(t, append([]string{"topics", "create", "other", "--partitions", "1"}, b...)...).code)
	r = command(t, lines, append([]string{"produce", "other", "--input", "json", "--ignore-partitions"}, b...)...)
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, 4, strings.Count(r.out, "other-0@"))
}

func TestGroupsOfLiveMembers(t *testing.T) {
	b := serveOrders(t, "a b c")
	c := client(t, b[1], kgo.ConsumerGroup("busy"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, c.PollFetches(t.Context()).Err())
	r := command(t, "", append([]string{"groups", "list", "--json"}, b...)...)
	// The output has no field with an unknown value.
	require.Equal(t, `{"type":"group","group":"busy","state":"Stable","protocolType":"consumer"}`+"\n", r.out)
	r = command(t, "", append([]string{"groups", "reset", "busy", "--topic", "orders", "--to", "earliest"}, b...)...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "busy, orders-0: the group has 1 members: stop them before a reset")
}

func TestAnAbsentBrokerIsToldOnceHoweverOftenItIsTried(t *testing.T) {
	var told []string
	c := &comings{say: func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }}
	b := kgo.BrokerMetadata{Host: "::1", Port: 9092}
	for range 2 {
		c.OnBrokerConnect(b, 0, nil, nil)
		c.OnBrokerConnect(b, 0, nil, io.EOF)
		c.OnBrokerConnect(b, 0, nil, io.EOF)
		c.OnBrokerConnect(kgo.BrokerMetadata{Host: "other", Port: 1}, 0, nil, nil)
	}
	c.OnBrokerConnect(b, 0, nil, nil)
	c.OnBrokerConnect(b, 0, nil, nil)
	away, back := "no broker at [::1]:9092 (EOF); trying again", "the broker at [::1]:9092 is back"
	require.Equal(t, []string{away, back, away, back}, told)
}
