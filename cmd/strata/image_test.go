package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// instructions reads the last stage of the Dockerfile: its ENV, and the arguments of the other
// instructions.
func instructions(t *testing.T) (env map[string]string, words map[string][]string) {
	t.Helper()
	f, err := os.Open(filepath.Join(home, "..", "..", "Dockerfile"))
	require.NoError(t, err)
	defer f.Close()
	env, words = map[string]string{}, map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch name {
		case "FROM":
			clear(env)
			clear(words)
		case "ENV":
			key, value, ok := strings.Cut(rest, "=")
			require.True(t, ok, rest)
			env[key] = value
		case "ENTRYPOINT", "CMD", "HEALTHCHECK":
			var list []string
			require.NoError(t, json.Unmarshal([]byte(rest[strings.Index(rest, "["):]), &list))
			words[name] = list
		}
	}
	return env, words
}

// Checklist row C8: the image's command runs with the image's environment and nothing else.
func TestImageServesAndIsHealthy(t *testing.T) {
	env, words := instructions(t)
	require.Equal(t, []string{"/strata"}, words["ENTRYPOINT"])
	require.Equal(t, "/strata", words["HEALTHCHECK"][0])
	dir := t.TempDir()
	require.Equal(t, "/data", env["STRATA_SERVE_DIR"])
	require.Equal(t, "0.0.0.0:9092", env["STRATA_SERVE_LISTEN"])
	delete(env, "STRATA_SERVE_ADVERTISE")
	// A directory and an address of this machine.
	env["STRATA_SERVE_DIR"], env["STRATA_SERVE_LISTEN"] = filepath.Join(dir, "data"), "127.0.0.1:0"
	env["STRATA_SERVE_SET"] = "num.partitions=5\nretention.ms=3600000"
	serving := strings.Join(words["CMD"], " ")
	require.Equal(t, "serve", serving)
	p := startIn(t, env)
	require.Regexp(t, `^ready `, p.ready, p.errs)
	env["STRATA_BOOTSTRAP"] = p.addr

	healthy := exec.Command(os.Args[0], words["HEALTHCHECK"][1:]...)
	healthy.Env = environ(env)
	out, err := healthy.CombinedOutput()
	require.NoError(t, err, string(out))

	c := client(t, p.addr)
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
	admin := kadm.NewClient(c)
	made, err := admin.CreateTopics(t.Context(), -1, 3, map[string]*string{"min.insync.replicas": kadm.StringPtr("2")}, "of-a-cluster")
	require.NoError(t, err)
	require.NoError(t, made["of-a-cluster"].Err)
	details, err := admin.ListTopics(t.Context())
	require.NoError(t, err)
	require.Len(t, details["orders"].Partitions, 5)
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "of-a-cluster", Value: []byte("one")}).FirstErr())
	c.Close()

	require.NoError(t, p.cmd.Process.Kill())
	p.wait(t)
	healthy = exec.Command(os.Args[0], words["HEALTHCHECK"][1:]...)
	healthy.Env = environ(env)
	require.Error(t, healthy.Run())
}

func environ(env map[string]string) (list []string) {
	list = []string{asProgram + "=1"}
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	return list
}

func TestServeTakesFlagsOfTheEnvironment(t *testing.T) {
	env := map[string]string{"STRATA_SERVE_DIR": "/nowhere/at/all"}
	require.Regexp(t, `^ready `, startIn(t, env, "--memory").ready, "a flag goes first")
	env = map[string]string{"STRATA_SERVE_MEMORY": "perhaps"}
	p := startIn(t, env)
	require.Equal(t, exitMisuse, p.wait(t))
	require.Contains(t, p.errs.String(), "$STRATA_SERVE_MEMORY")
	p = startIn(t, map[string]string{"STRATA_SERVE_MEMORY": "true", "STRATA_SERVE_SET": "a=b"})
	require.Equal(t, exitMisuse, p.wait(t))
}
