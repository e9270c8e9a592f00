package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// ids and times differ between runs
var varying = regexp.MustCompile(`id [A-Za-z0-9_-]{22}|"id":"[^"]*"|\d{4}-\d\d-\d\dT[0-9:.]+Z|"timestamp":\d+|strata-[0-9a-f-]{36}`)

// session runs commands one after the other against a target and returns their output.
func session(t *testing.T, where []string, commands ...[]string) string {
	t.Helper()
	var b strings.Builder
	for _, c := range commands {
		in := ""
		if i := len(c) - 1; strings.HasPrefix(c[i], "<") {
			in, c = c[i][1:], c[:i]
		}
		r := strataIn(t, in, append(c[:len(c):len(c)], where...)...)
		b.WriteString("$ strata " + strings.Join(c, " ") + "\n" + varying.ReplaceAllString(r.out+r.err, "VARIES"))
		if r.code != exitOK {
			b.WriteString("exit code " + string(rune('0'+r.code)) + "\n")
		}
	}
	return b.String()
}

// The operations on topics, groups and records; their output is compared.
var script = [][]string{
	{"topics", "create", "orders", "--partitions", "2"},
	{"topics", "create", "orders"},
	{"topics", "create", "state", "--partitions", "1", "--set", "cleanup.policy=compact"},
	{"topics", "list"},
	{"produce", "orders", "--partition", "0", "one", "two"},
	{"produce", "orders", "--partition", "1", "--key-separator", ":", "--header", "h=x", "<k1:v1\nplain\n"},
	{"produce", "orders", "--input", "json", `<{"key":null,"value":{"base64":"/w=="},"partition":0,"timestamp":1700000000000,"headers":[{"key":"a","value":null}]}`},
	{"consume", "orders", "--partition", "0"},
	{"consume", "orders", "--partition", "1", "--json"},
	{"consume", "orders", "--partition", "0", "--from", "2", "--json"},
	{"consume", "orders", "--partition", "0", "--from", "latest"},
	{"consume", "orders", "--partition", "0", "--values", "--max", "1"},
	{"consume", "orders", "--partition", "7"},
	{"consume", "nothing"},
	{"groups", "reset", "billing", "--topic", "orders", "--to", "1"},
	{"groups", "list"},
	{"groups", "describe", "billing"},
	{"groups", "describe", "nobody"},
	{"groups", "lag"},
	{"groups", "lag", "nobody"},
	{"groups", "lag", "--max-records", "3"},
	{"groups", "lag", "billing", "--max-records", "2"},
	{"groups", "lag", "--max-drain", "1h", "--interval", "10ms"},
	{"groups", "lag", "--max-records", "2", "--max-drain", "1h", "--interval", "10ms", "--json"},
	{"groups", "reset", "billing", "--topic", "orders", "--to", "2020-01-01T00:00:00Z"},
	{"produce", "single", "--key", "k", "a", "b", "c"},
	{"consume", "single", "--group", "billing", "--max", "2", "--values"},
	{"consume", "single", "--group", "billing", "--max", "1", "--json"},
	{"consume", "single", "--group", "billing"},
	{"groups", "describe", "billing", "--json"},
	{"topics", "add-partitions", "orders", "--total", "3"},
	{"topics", "add-partitions", "orders", "--total", "1"},
	{"topics", "alter", "orders", "--set", "retention.ms=7000"},
	{"topics", "alter", "orders", "--set", "retention.ms=x"},
	{"topics", "alter", "orders"},
	{"topics", "describe", "orders"},
	{"topics", "alter", "orders", "--unset", "retention.ms"},
	{"topics", "describe", "state", "--json"},
	{"groups", "alter", "billing", "--set", "consumer.heartbeat.interval.ms=10000", "--set", "consumer.session.timeout.ms=50000"},
	{"groups", "alter", "billing", "--set", "consumer.heartbeat.interval.ms=x"},
	{"groups", "alter", "billing"},
	{"groups", "alter", "billing", "payments", "--unset", "consumer.heartbeat.interval.ms"},
	{"groups", "delete", "billing"},
	{"groups", "delete", "billing"},
	{"topics", "delete", "state"},
	{"topics", "delete", "state"},
	{"topics", "list", "--json"},
}

func TestTopicsGroupsAndRecordsOfABroker(t *testing.T) {
	p := start(t, "--memory")
	golden(t, "session.text", session(t, []string{"-b", p.addr}, script...))
}

func TestTopicsGroupsAndRecordsOfADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.Equal(t, exitMisuse, strataRun(t, "topics", "list", "--dir", dir).code)
	p := start(t, "--dir", dir)
	r := strataRun(t, "topics", "list", "--dir", dir)
	require.Equal(t, exitFailed, r.code, r.err)
	require.Contains(t, r.err, "directory is in use")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	golden(t, "session.text", session(t, []string{"--dir", dir}, script...)) // the same
	require.Equal(t, exitOK, strataRun(t, "verify", dir).code)
}

func TestRecordsSurviveJSON(t *testing.T) {
	p := start(t, "--memory")
	in := `{"key":"k","value":null,"headers":[{"key":"a","value":""},{"key":"a","value":{"base64":"AP8="}}]}` + "\n" +
		`{"key":"","value":"größe","timestamp":5}` + "\n"
	require.Equal(t, exitOK, strataIn(t, in, "produce", "a", "--input", "json", "-b", p.addr).code)
	first := strataRun(t, "consume", "a", "--json", "-b", p.addr)
	require.Equal(t, exitOK, first.code, first.err)
	require.Equal(t, exitOK, strataIn(t, first.out, "produce", "b", "--input", "json", "--compression", "zstd", "-b", p.addr).code)
	second := strataRun(t, "consume", "b", "--json", "-b", p.addr)
	require.Equal(t, strings.ReplaceAll(first.out, `"topic":"a"`, `"topic":"b"`), second.out)
	for line := range strings.Lines(first.out) {
		require.True(t, json.Valid([]byte(line)))
	}
	for _, bad := range []string{"{", `{"value":5}`, `{"value":{"base64":"?"}}`} {
		r := strataIn(t, bad, "produce", "a", "--input", "json", "-b", p.addr)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.err, "line 1: ")
	}
}

func TestNobodyAnswers(t *testing.T) {
	r := strataRun(t, "topics", "list", "-b", "127.0.0.1:1", "--timeout", "1s")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "no broker answers at 127.0.0.1:1")
	for _, args := range [][]string{
		{"topics", "list"}, {"topics", "list", "-b", "x:1", "--dir", "y"}, {"topics"}, {"topics", "create", "-b", "x:1"}, {"groups", "nothing"},
		{"topics", "add-partitions", "x", "-b", "x:1"}, {"groups", "reset", "x", "-b", "x:1"},
		{"groups", "lag", "--max-records", "-1", "-b", "x:1"}, {"groups", "lag", "--max-drain", "1s", "--interval", "0s", "-b", "x:1"},
	} {
		require.Equal(t, exitMisuse, strataRun(t, args...).code, args)
	}
}
