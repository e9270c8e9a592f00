package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGroupsAreNotResetBeyondTheEnd(t *testing.T) {
	b := serveOrders(t, "x y", "a b c d")
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	for _, groups := range []string{"groups", "shares"} {
		r := run(groups, "reset", "g", "--topic", "orders", "--to", "3")
		require.Equal(t, result{exitFailed, "", "strata: orders-0: offset 3 is beyond its end, 2\n"}, r)
		require.Empty(t, run(groups, "list").out, "nothing is changed")
	}
	require.Equal(t, exitOK, run("topics", "delete-records", "orders", "--before", "1", "--partition", "1").code)
	require.Equal(t, result{exitOK, "g: orders-0 is at 2\ng: orders-1 is at 2\n", ""}, run("groups", "reset", "g", "--topic", "orders", "--to", "2"))
	require.Equal(t, result{exitOK, "g: orders-0 is at 0\ng: orders-1 is at 1\n", ""}, run("groups", "reset", "g", "--topic", "orders", "--to", "0"))
	require.Equal(t, result{exitOK, "g: orders-0 is at 2\ng: orders-1 is at 4\n", ""}, run("groups", "reset", "g", "--topic", "orders", "--to", "2999-01-01T00:00:00Z"))
	require.Equal(t, result{exitOK, "s: orders-0 is at 0\ns: orders-1 is at 1\n", ""}, run("shares", "reset", "s", "--topic", "orders", "--to", "0"))
}

// An argument from an unset variable of a script is rejected. It does not select more objects.
func TestEmptyNamesAreMisuse(t *testing.T) {
	b := serveOrders(t, "x", "y")
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	for says, args := range map[string][]string{
		"--topic is empty":     {"groups", "reset", "g", "--topic", "", "--to", "earliest"},
		"--to is empty":        {"groups", "reset", "g", "--topic", "orders", "--to", ""},
		"argument 1 is empty":  {"groups", "reset", "", "--topic", "orders", "--to", "earliest"},
		"argument 2 is empty":  {"topics", "delete", "orders", ""},
		"--principal is empty": {"acls", "remove", "--principal", "", "--type", "topic"},
		"--name is empty":      {"acls", "remove", "--name", ""},
		"--for-user is empty":  {"quotas", "remove", "--for-user", "", "--for-client-id", "x"},
		"--group is empty":     {"consume", "orders", "--group", "", "--max", "1"},
	} {
		r := run(args...)
		require.Equal(t, exitMisuse, r.code, args)
		require.Contains(t, r.err, says)
		require.Empty(t, r.out)
	}
	for _, args := range [][]string{
		{"transactions", "find-hanging", "--topic", ""}, {"transactions", "find-hanging", "--topic", "orders,"}, {"shares", "forget", "g", "--topic", ""},
	} {
		r := run(args...)
		require.Equal(t, exitMisuse, r.code, args)
		require.Contains(t, r.err, "--topic is empty")
	}
	require.Empty(t, run("groups", "list").out)
	require.Equal(t, exitOK, run("produce", "orders", "--key", "", "").code, "keys and values may be")
}

// The rule of exit codes, as in the command's help.
func TestExitCodesAreTheSameEverywhere(t *testing.T) {
	b := serveOrders(t, "x", "y")
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for want, all := range map[int][][]string{
		exitFailed: {
			{"topics", "offsets", "nope"}, {"topics", "describe", "nope"}, {"topics", "delete", "nope"}, {"topics", "advise", "nope"}, {"consume", "nope"},
			{"topics", "delete-records", "nope", "--before", "latest"}, {"groups", "describe", "nope"}, {"groups", "lag", "nope"}, {"groups", "delete", "nope"},
			{"groups", "reset", "g", "--topic", "nope", "--to", "earliest"}, {"shares", "reset", "g", "--topic", "nope", "--to", "earliest"},
			{"shares", "describe", "nope"}, {"shares", "forget", "nope", "--topic", "orders"}, {"shares", "delete", "nope"},
			{"transactions", "describe", "nope"}, {"transactions", "find-hanging", "--topic", "nope"},
			{"transactions", "abort", "--topic", "nope", "--partition", "0", "--start-offset", "0"},
			{"users", "list", "nope"}, {"users", "remove", "nope"}, {"quotas", "remove", "--for-user", "nope", "x"},
			{"quotas", "set", "--for-user", "nope", "nope=1"}, {"topics", "alter", "nope", "--set", "retention.ms=1"},
		},
		exitMisuse: {
			{"topics", "offsets", "orders", "--at", "1"}, {"topics", "delete-records", "orders", "--before", "latest", "--partition", "-2"},
			{"topics", "create", "a", "--partitions", "0"}, {"topics", "create", "a", "--replication-factor", "-2"}, {"topics", "add-partitions", "orders", "--total", "-1"},
			{"topics", "alter", "orders", "--set", "retention.ms=1", "--unset", "retention.ms"}, {"topics", "alter", "orders", "--set", "a=1", "--set", "a=2"},
			{"quotas", "set", "--for-user", "a", "producer_byte_rate=1", "producer_byte_rate=2"}, {"consume", "orders", "--partition", "-2"}, {"transactions", "find-hanging", "--max-timeout", "-1s"},
			{"transactions", "abort", "--topic", "orders", "--partition", "-1", "--start-offset", "0"}, {"topics", "list", "--timeout", "0s"},
		},
	} {
		for _, args := range all {
			r := command(t, "", append(args, b...)...)
			require.Equal(t, want, r.code, "%v: %s", args, r.err)
			require.Empty(t, r.out, args)
			require.Equal(t, 1, strings.Count(r.err, "\n"), "%v: %s", args, r.err)
			if want == exitFailed {
				require.Contains(t, r.err, "nope", "%v", args)
			}
		}
	}
	for _, args := range [][]string{
		{"verify", nowhere}, {"verify", file}, {"dump", nowhere}, {"backup", nowhere, nowhere + "2"}, {"backup", t.TempDir(), nowhere}, {"restore", nowhere, nowhere + "2"},
		{"import", "--from", nowhere, "--dir", nowhere + "2"}, {"export", "--dir", nowhere, "--to", nowhere + "2"}, {"topics", "list", "--dir", nowhere},
		{"import", "--from", file, "--dir", nowhere}, {"topics", "list", "--dir", file},
		{"export", "--dir", file, "--to", nowhere}, {"export", "--dir", t.TempDir(), "--to", nowhere}, {"graduate", "--check", "--dir", file},
		{"graduate", "--check", "--dir", t.TempDir()}, {"graduate", "--compare", "--dir", file, b[0], b[1]}, {"graduate", "--compare", "--dir", t.TempDir(), b[0], b[1]},
	} {
		r := command(t, "", args...)
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.err)
		require.Equal(t, 1, strings.Count(r.err, "\n"), "%v: %s", args, r.err)
	}
	require.NoFileExists(t, nowhere)
}

func TestBackupMakesNoClusterOfAnotherDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letters"), nil, 0o600))
	r := command(t, "", "backup", dir, filepath.Join(t.TempDir(), "saved"))
	require.Equal(t, result{exitMisuse, "", "strata: " + dir + ": the directory has no cluster\n"}, r)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// Checklist row C7: every invalid field is reported.
func TestJSONThatIsReadAsSomethingElseIsRefused(t *testing.T) {
	b := serveOrders(t, "x", "y")
	for says, line := range map[string]string{
		`unexpected array: a line must be an object`:      `["a"]`,
		`unexpected number 0.5: a line must be an object`: `{"value":"a","partition":0.5}`,
		`duplicate field "value"`:                         `{"value":"a","value":"b"}`,
		`duplicate field "key"`:                           `{"key":"a","k\u0065y":"b","value":"c"}`,
		`duplicate field "base64"`:                        `{"value":{"base64":"AA==","base64":"AQ=="}}`,
		`unknown field "Value": write "value"`:            `{"value":"a","Value":"b"}`,
		`unknown field "KEY": write "key"`:                `{"KEY":"a","value":"b"}`,
		`unknown field "Base64": write "base64"`:          `{"value":{"Base64":"AA=="}}`,
		`unknown field "Key": write "key"`:                `{"value":"a","headers":[{"Key":"a","value":"b"}]}`,
		`\ud800 is an unpaired surrogate`:                 `{"value":"a\ud800b"}`,
		`\uDC00 is an unpaired surrogate`:                 `{"value":"a","key":"\uDC00\uD800"}`,
		`\ud83d is an unpaired surrogate`:                 `{"value":"\\\ud83d\\ude00"}`,
		`\udbff is an unpaired surrogate`:                 `{"value":"a","headers":[{"key":"\udbff\u0041","value":null}]}`,
		`\uD834 is an unpaired surrogate`:                 `{"value":"\uD834"}`,
	} {
		r := command(t, `{"value":"first"}`+"\n"+line, append([]string{"produce", "orders", "--input", "json", "--partition", "0"}, b...)...)
		require.Equal(t, exitFailed, r.code, line)
		require.Contains(t, r.err, "line 2: "+says)
	}
	r := command(t, `{"value":"\ud83d\uDE00 \\ud800 \u00e9","key":"\"\\"}`, append([]string{"produce", "orders", "--input", "json", "--partition", "1"}, b...)...)
	require.Equal(t, exitOK, r.code, r.err)
	r = command(t, "", append([]string{"consume", "orders", "--partition", "1", "--last", "1", "--json"}, b...)...)
	require.Contains(t, r.out, `"key":"\"\\","value":"😀 \\ud800 é"`)
}

func TestRefusalsNameWhatTheyAreAboutAndSayItOnce(t *testing.T) {
	p := start(t, "--memory", "--authorize", "--super-users", "User:admin")
	topic, group := "TOPIC_AUTHORIZATION_FAILED: Topic authorization failed.\n", "GROUP_AUTHORIZATION_FAILED: Group authorization failed.\n"
	for _, c := range []struct {
		says string
		args []string
	}{
		{"strata: orders: " + topic, []string{"topics", "describe", "orders"}},
		{"strata: orders: " + topic, []string{"topics", "offsets", "orders"}},
		{"strata: orders: " + topic, []string{"topics", "delete-records", "orders", "--before", "latest"}},
		{"strata: orders: " + topic, []string{"topics", "delete", "orders"}},
		{"strata: orders: " + topic, []string{"consume", "orders"}},
		{"strata: orders, line 1: " + topic, []string{"produce", "orders", "x"}},
		{"strata: orders: " + topic, []string{"groups", "reset", "g", "--topic", "orders", "--to", "earliest"}},
		{"strata: g: " + group, []string{"groups", "describe", "g"}},
		{"strata: g: " + group, []string{"groups", "lag", "g"}},
		{"strata: g: " + group, []string{"groups", "delete", "g"}},
		{"strata: g: " + group, []string{"shares", "describe", "g"}},
		{"strata: g: " + group, []string{"shares", "forget", "g", "--topic", "orders"}},
		{"strata: t: TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Transactional ID authorization failed.\n", []string{"transactions", "describe", "t"}},
		{"strata: user a: CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed.\n", []string{"quotas", "set", "--for-user", "a", "producer_byte_rate=1"}},
		{"strata: access control entries: CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed.\n", []string{"acls", "list"}},
	} {
		require.Equal(t, result{exitFailed, "", c.says}, command(t, "", append(c.args, "-b", p.addr)...), c.args)
	}
}
