package interop

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
)

// franzSkips matches the names of franz-go's tests of share groups.
const franzSkips = "Share"

// TestFranzGosOwnSuite runs franz-go's own tests, consumer groups of every assignor under load
// among them, against our server. The tests that franzSkips matches are left out. STRATA_SUITES=1
// gives it its own number of records, 500,000 and not 50,000.
func TestFranzGosOwnSuite(t *testing.T) {
	k, _ := startStrata(t)
	env := []string{"KGO_TEST_RF=1", "KGO_SEEDS=" + k.addr}
	if os.Getenv("STRATA_SUITES") == "" {
		env = append(env, "KGO_TEST_RECORDS=50000")
	}
	r := runSuite(t, suite{module: "github.com/twmb/franz-go", pkg: "pkg/kgo", run: ".", skip: franzSkips, env: env})
	require.Empty(t, r.failed)
	require.Contains(t, r.passed, "TestGroupETL", "the test that needs a broker most")
	require.Contains(t, r.passed, "TestTxnEtl", "and the one that does it in transactions")
	for _, name := range []string{"TestGroupSimple/848", "TestGroupETL/range/848", "TestGroupETL/sticky/848/static", "TestTxnEtl/sticky/848", "Test848RegexBrokerResolves"} {
		require.Contains(t, r.passed, name, "KIP-848, which it leaves out if the broker does not know it")
	}
}

// kafkaGoFails names the tests of kafka-go that cannot pass, with the reason.
var kafkaGoFails = map[string]string{
	"TestAlterUserScramCredentials":                               "no security",
	"TestDescribeUserScramCredentials":                            "no security",
	"TestUnsupportedSASLMechanism":                                "no security",
	"TestClientCreateACLs":                                        "no security",
	"TestClientDeleteACLs":                                        "no security",
	"TestClientDescribeACLs":                                      "no security",
	"TestWriter/writing_a_message_with_SASL_Plain_authentication": "no security",
	"TestReaderReadCompactedMessage":                              "fails with Apache Kafka 4.3 too: segment.bytes=200 is below the least",
	"TestReaderConsumerGroup/consumer_group_rebalance":            "fails with Apache Kafka 4.3 too: it expects halves of three partitions",
	"TestConn/test_delete_topics":                                 "fails with Apache Kafka 4.3 too: asking for the deleted topics creates them",
	"TestConn/test_delete_topics_with_an_invalid_topic":           "a topic that is created by asking has its partitions in the answer",
}

// TestKafkaGosOwnSuite runs kafka-go's own tests against our server. They want it at localhost:9092
// and take minutes: only with STRATA_SUITES=1.
func TestKafkaGosOwnSuite(t *testing.T) {
	if os.Getenv("STRATA_SUITES") == "" {
		t.Skip("STRATA_SUITES is not set")
	}
	cluster, err := strata.Open(strata.Config{Dir: filepath.Join(t.TempDir(), "data")})
	require.NoError(t, err)
	defer cluster.Close()
	s := kafka.NewServer(cluster, kafka.Config{Advertise: func(int32, net.Listener) (string, int32) { return "localhost", 9092 }})
	ln, err := net.Listen("tcp", "127.0.0.1:9092")
	require.NoError(t, err)
	go s.Serve(cluster.Controller(), ln)
	defer s.Close()
	// The subtests that are left out call a function of the suite that is nil: no broker is asked.
	r := runSuite(t, suite{
		module: "github.com/segmentio/kafka-go", pkg: ".", run: ".", skip: "TestReaderConsumerGroup/(consumer_group_commits_on_close|verify_offset)",
		env: []string{"KAFKA_VERSION=4.0.0"},
	})
	for _, name := range r.failed {
		known := slices.ContainsFunc(slices.Collect(maps.Keys(kafkaGoFails)), func(k string) bool { return k == name || strings.HasPrefix(k, name+"/") })
		require.True(t, known, "%s fails", name)
	}
	t.Logf("%d pass, %d fail with a known reason", len(r.passed), len(r.failed))
}

// A suite is the tests of a package of a module that this one requires.
type suite struct {
	module, pkg string
	run, skip   string // as go test has them
	env         []string

	// disturbed matches what a test of the suite may say when it fails because a broker died, and
	// not because of what it read. A test that fails and says nothing else is not failed.
	disturbed *regexp.Regexp
}

// said matches what a test says, in its file and line.
var said = regexp.MustCompile(`(?m)^\s*\w+_test\.go:\d+: .*$`)

// excuses reports whether a test that failed was only disturbed.
func (s suite) excuses(output string) bool {
	if s.disturbed == nil {
		return false
	}
	for _, line := range said.FindAllString(output, -1) {
		if !s.disturbed.MatchString(line) {
			return false
		}
	}
	return !strings.Contains(output, "panic:")
}

// What the tests of a suite did, by their names.
type ran struct{ passed, failed, disturbed []string }

// runSuite runs a suite in a copy of its own.
func runSuite(t *testing.T, s suite) (r ran) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", s.module).Output()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "suite")
	require.NoError(t, os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755) // modules are stored read-only
	}))
	goCommand := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join(dir, s.pkg)
		cmd.Env = append(os.Environ(), append(s.env, "GOWORK=off", "GOFLAGS=-mod=mod")...)
		cmd.WaitDelay = time.Second
		return cmd.CombinedOutput()
	}
	if out, err := goCommand("mod", "tidy"); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	// It fails if one of its tests does; what failed is in its output.
	out, runErr := goCommand("test", "-json", "-count=1", "-timeout=8m", "-run", s.run, "-skip", s.skip, ".")
	output := map[string]string{}
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			output[""] += string(line)
			continue
		}
		output[e.Test] += e.Output
		switch {
		case e.Test == "":
		case e.Action == "pass":
			r.passed = append(r.passed, e.Test)
		case e.Action == "fail":
			if s.excuses(output[e.Test]) {
				t.Logf("%s was disturbed", e.Test)
				r.disturbed = append(r.disturbed, e.Test)
				continue
			}
			r.failed = append(r.failed, e.Test)
			t.Logf("%s:\n%s", e.Test, output[e.Test])
		}
	}
	require.False(t, runErr != nil && len(r.failed)+len(r.disturbed) == 0, "%v\n%s", runErr, output[""])
	require.NotZero(t, len(r.passed)+len(r.disturbed))
	return r
}

// undisturbed runs a suite, and what was disturbed in it again, until each test has gone through or
// failed, at most the given number of times. It returns what passed, and what did not: failed, or
// disturbed to the last.
func undisturbed(t *testing.T, s suite, most int) (passed, not []string) {
	r := runSuite(t, s)
	passed, not = r.passed, r.failed
	left := innermost(r.disturbed)
	for ; most > 1 && len(left) > 0; most-- {
		var still []string
		for _, name := range left {
			s.run = "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
			r := runSuite(t, s)
			passed, not = append(passed, r.passed...), append(not, r.failed...)
			still = append(still, innermost(r.disturbed)...)
		}
		left = still
	}
	return passed, append(not, left...)
}

// innermost leaves out the tests whose subtests are among the names: they fail with these.
func innermost(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}
