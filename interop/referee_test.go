package interop

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/interop/apache"
)

// TestKafkasOwnTests runs Apache Kafka's tests of its brokers and tools, from the published jars,
// against `strata serve`. The classes in referee/ replace the classes of Kafka's test framework
// that start brokers. Brokers have the ids that the tests expect, from 0 on, and are stopped and
// started one by one. Clients connect through doors (referee/strata/Door.java), and the program is
// built with the tag referee. apache.txt lists the tests to run, and the tests that cannot pass,
// with the reason. A few quick ones always run, and all with STRATA_LONG=1.
func TestKafkasOwnTests(t *testing.T) {
	list := readReferee(t)
	selected, least, long := list.quick, 90, os.Getenv("STRATA_LONG") != ""
	if long {
		selected, least = append(selected, list.others...), 1080
	}
	verdicts := judged(t, selected, list.left)
	passed, left := 0, 0
	for _, v := range verdicts {
		_, reason, listed := list.reason(v.name)
		switch {
		case v.verdict == "passed" && listed:
			t.Errorf("%s passes, and apache.txt has it: %s", v.name, reason)
		case v.verdict == "passed", strings.Contains(v.reason, ownThread):
			passed++
		case listed:
			left++
		default:
			t.Errorf("%s: %s: %s", v.name, v.verdict, v.reason)
		}
	}
	if long {
		used := map[string]bool{}
		for _, v := range verdicts {
			entry, _, _ := list.reason(v.name)
			used[entry] = true
		}
		for entry := range list.out {
			require.True(t, used[entry], "apache.txt: there is no test %s", entry)
		}
	}
	require.GreaterOrEqual(t, passed, least)
	t.Logf("%d tests pass, %d do not and are listed", passed, left)
}

// ownThread is in the reason of a test that counts as passed. Only a thread of its own pool was
// still running a moment after the pool had ended. Kafka's tests wait for the pool.
const ownThread = "Thread leak detected: pool-"

// refereeList is the content of apache.txt. The head of that file describes the format.
type refereeList struct {
	// Classes that always run, and classes that run with STRATA_LONG.
	quick, others []string
	left          []string          // tests of Kafka's that are not run
	out           map[string]string // reasons of the tests that cannot pass, by entry
}

// reason returns why a test cannot pass, and its entry in the list: the test, or a prefix of its
// name and *.
func (l *refereeList) reason(test string) (entry, reason string, listed bool) {
	if reason, listed := l.out[test]; listed {
		return test, reason, true
	}
	for i := len(test); i > strings.Index(test, "#"); i-- {
		entry := test[:i] + "*"
		if reason, listed := l.out[entry]; listed {
			return entry, reason, true
		}
	}
	return "", "", false
}

func readReferee(t *testing.T) refereeList {
	t.Helper()
	f, err := os.Open("apache.txt")
	require.NoError(t, err)
	defer f.Close()
	l := refereeList{out: map[string]string{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		head, reason, _ := strings.Cut(line, ": ")
		kind, name, _ := strings.Cut(head, " ")
		switch kind {
		case "class":
			l.others = append(l.others, name)
		case "quick":
			l.quick = append(l.quick, name)
		case "inside", "missing", "deviates":
			require.NotEmpty(t, strings.TrimSpace(reason), "a reason: %s", line)
			require.NotContains(t, l.out, name, "it is listed twice")
			l.out[name] = reason
		case "without", "leave":
			require.NotEmpty(t, strings.TrimSpace(reason), "a reason: %s", line)
			if kind == "leave" {
				l.left = append(l.left, name)
			}
		default:
			t.Fatalf("apache.txt: %s", line)
		}
	}
	return l
}

// A verdict is the result of a test.
type verdict struct {
	verdict string // passed, failed, aborted, skipped
	name    string // CLASS#METHOD, with [N] for a further run of the method
	reason  string
}

// judged runs classes of Kafka's tests, without some of their methods.
func judged(t *testing.T, classes, without []string) (verdicts []verdict) {
	t.Helper()
	need(t, "java", "javac", "mvn")
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Minute)
	defer cancel()
	kit, err := apache.InstallTests(ctx)
	require.NoError(t, err)
	dir := t.TempDir()
	strata := filepath.Join(dir, "strata")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "referee", "-o", strata, "./cmd/strata")
	build.Dir = ".."
	run(t, build)
	var sources []string
	require.NoError(t, filepath.WalkDir("referee", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".java") {
			sources = append(sources, path)
		}
		return err
	}))
	compiled := filepath.Join(dir, "compiled")
	run(t, kit.Compile(ctx, compiled, sources...))
	results := filepath.Join(dir, "results")
	left := make([]string, 0, len(without))
	for _, name := range without {
		left = append(left, "-"+name)
	}
	cmd := kit.Before(compiled).Java(ctx, append(append([]string{"-Xmx640m", "Referee", results}, classes...), left...)...)
	cmd.Env = append(os.Environ(), "JAVA_TOOL_OPTIONS=-Dreferee.strata="+strata+" -Djava.io.tmpdir="+dir)
	out, err := cmd.CombinedOutput()
	said, readErr := os.ReadFile(results)
	require.NoError(t, err, "%s", tail(out))
	require.NoError(t, readErr)
	for line := range strings.Lines(string(said)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, fields, 4, line)
		verdicts = append(verdicts, verdict{fields[0], fields[1], fields[3]})
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", tail(out))
		}
	})
	last := len(verdicts) - 1
	require.GreaterOrEqual(t, last, 0, "%s", tail(out))
	require.Equal(t, "done", verdicts[last].verdict, "it ended after %s", verdicts[last].name)
	return verdicts[:last]
}

// tail returns the end of a program's output.
func tail(out []byte) string { return fmt.Sprintf("...%s", out[max(0, len(out)-4000):]) }
