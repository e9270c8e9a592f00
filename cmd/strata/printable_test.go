package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hostileName clears the screen, in both forms, reverses text direction, and forges a line.
const hostileName = "x\x1b[2J\u009b2J\u202e\x7f\t\nbilling: lag 0 \U000e0001"

// requirePrintable fails if the output has a control character that a terminal would execute, or a
// line forged by a name.
func requirePrintable(t *testing.T, text string, args ...string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), args)
	for line := range strings.Lines(text) {
		require.NotContains(t, line, "\nbilling", args)
		require.False(t, strings.HasPrefix(line, "billing"), "%v: %q", args, text)
		for _, r := range strings.TrimSuffix(line, "\n") {
			require.True(t, strconv.IsPrint(r), "%v: %q in %q", args, r, line)
		}
	}
}

func TestNamesFromClientsCannotDriveTheTerminal(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	b := []string{"-b", p.addr}
	require.Equal(t, exitOK, strataRun(t, append([]string{"produce", "orders", "a"}, b...)...).code)
	// a member of a group and a transaction, with names of their own
	member, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.ClientID(hostileName), kgo.ConsumerGroup(hostileName), kgo.InstanceID(hostileName), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	require.Len(t, member.PollFetches(t.Context()).Records(), 1)
	require.NoError(t, member.CommitUncommittedOffsets(t.Context()))
	writer, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.TransactionalID(hostileName))
	require.NoError(t, err)
	require.NoError(t, writer.BeginTransaction())
	require.NoError(t, writer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Key: []byte(hostileName), Headers: []kgo.RecordHeader{{Key: hostileName}}}).FirstErr())
	for _, args := range [][]string{
		{"groups", "list"}, {"groups", "describe", hostileName}, {"groups", "lag"}, {"groups", "delete", hostileName},
		{"shares", "reset", hostileName, "--topic", "orders", "--to", "0"}, {"groups", "describe", "nobody" + hostileName},
		{"transactions", "list"}, {"transactions", "describe", hostileName},
		{"users", "set", hostileName, "<pw"}, {"users", "list"}, {"quotas", "set", "--user", hostileName, "--set", "producer_byte_rate=1e9"}, {"quotas", "list"},
		{"acls", "add", "--type", "group", "--name", hostileName, "--principal", "User:" + hostileName, "--operation", "read"},
		{"top", "--count", "1", "--interval", "1ms"}, {"topics", "describe", hostileName}, {"consume", "orders", "--partition", "0", "--max", "1"},
	} {
		in := ""
		if last := len(args) - 1; args[last] == "<pw" {
			in, args = "pw\n", args[:last]
		}
		for _, form := range [][]string{nil, {"--json"}} {
			r := strataIn(t, in, append(append(args, form...), b...)...)
			requirePrintable(t, r.out+r.err, args...)
			for line := range strings.Lines(r.out) {
				require.Equal(t, form != nil, json.Valid([]byte(line)), "%v: %s", args, line)
			}
		}
	}
	r := strataRun(t, append([]string{"groups", "list", "--json"}, b...)...)
	var listed listedLine
	require.NoError(t, json.Unmarshal([]byte(r.out), &listed))
	require.Equal(t, hostileName, listed.Group, "JSON has the name as it is")
	member.Close()
	require.NoError(t, writer.EndTransaction(t.Context(), kgo.TryAbort))
	writer.Close()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	requirePrintable(t, p.errs.String())
	dumped := strataRun(t, "dump", "-v", dir)
	require.Contains(t, dumped.out, `x\x1b[2J`)
	requirePrintable(t, dumped.out+dumped.err, "dump")

	var page bytes.Buffer
	a := &app{w: newWriter(&page)}
	require.NoError(t, a.frame(frame{groups: []topGroupLine{{Group: hostileName, State: hostileName, Error: hostileName}}}, topOptions{rows: 1}, true))
	requirePrintable(t, strings.TrimPrefix(page.String(), "\x1b[H\x1b[2J"), "top")
}

func TestPrintableTextStays(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"billing-1":              "billing-1",
		"größe 注文 🎉":             "größe 注文 🎉",
		"a\x1bb":                 `a\x1bb`,
		"a\nb\n":                 `a\nb\n`,
		"\xff\u202e\u00a0\u007f": `\xff\u202e\u00a0\x7f`,
	} {
		require.Equal(t, want, printable(in))
		p, err := json.Marshal(in)
		require.NoError(t, err)
		var back string
		require.NoError(t, json.Unmarshal(printableJSON(p), &back))
		require.Equal(t, strings.ToValidUTF8(in, "\ufffd"), back)
	}
	require.Equal(t, "a\n  b\\x1b", printableLines("a\nb\x1b"))
}
