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
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
)

// TestFranzGosOwnSuite runs franz-go's own tests against Strata, among them consumer groups of
// every assignor under load. They write 50,000 records; with STRATA_SUITES=1 the suite's own
// 500,000.
func TestFranzGosOwnSuite(t *testing.T) {
	t.Parallel()
	k, _ := startStrata(t)
	env := []string{"KGO_TEST_RF=1", "KGO_SEEDS=" + k.addr}
	if os.Getenv("STRATA_SUITES") == "" {
		env = append(env, "KGO_TEST_RECORDS=50000")
	}
	r := runSuite(t, suite{module: "github.com/twmb/franz-go", pkg: "pkg/kgo", run: ".", env: env})
	require.Empty(t, r.failed)
	require.Contains(t, r.passed, "TestGroupETL", "the test that needs a broker most")
	require.Contains(t, r.passed, "TestTxnEtl", "and the one that does it in transactions")
	for _, name := range []string{"TestShareGroupETL", "TestShareGroupAckOnClose", "TestShareGroupOffsetsAdmin"} {
		require.Contains(t, r.passed, name, "share groups, which it leaves out likewise")
	}
	for _, name := range []string{"TestGroupSimple/848", "TestGroupETL/range/848", "TestGroupETL/sticky/848/static", "TestTxnEtl/sticky/848", "Test848RegexBrokerResolves"} {
		require.Contains(t, r.passed, name, "KIP-848, which it leaves out if the broker does not know it")
	}
}

// kafkaGoFails names the tests of kafka-go that cannot pass, with the reason.
var kafkaGoFails = map[string]string{
	"TestReaderReadCompactedMessage":                    "fails with Apache Kafka 4.3 too: segment.bytes=200 is below the least",
	"TestReaderConsumerGroup/consumer_group_rebalance":  "fails with Apache Kafka 4.3 too: it expects halves of three partitions",
	"TestConn/test_delete_topics":                       "fails with Apache Kafka 4.3 too: asking for the deleted topics creates them",
	"TestConn/test_delete_topics_with_an_invalid_topic": "a topic that is created by asking has its partitions in the answer",
}

// kafkaGoSecurity matches kafka-go's tests of users, passwords and access control.
const kafkaGoSecurity = "Scram|SASL|ACLs|TestWriter/writing_a_message_with_SASL"

// TestKafkaGosOwnSuite runs kafka-go's own tests against Strata. All of them take minutes and need
// brokers at localhost:9092 and 9093, so they need STRATA_SUITES=1. Those of security always run,
// with the addresses in them replaced.
func TestKafkaGosOwnSuite(t *testing.T) {
	t.Parallel()
	own := serveStrata(t, 1, func(*strata.Config) {}, func(cfg *kafka.Config) {
		cfg.Advertise = func(_ int32, ln net.Listener) (string, int32) {
			return "localhost", int32(ln.Addr().(*net.TCPAddr).Port)
		}
		cfg.Authorization = kafka.Authorization{Enabled: true, AllowEveryoneIfNoACL: true}
	})
	s := suite{
		module: "github.com/segmentio/kafka-go", pkg: ".", run: kafkaGoSecurity,
		// They call a nil function of the suite, and send no request to a broker.
		skip: "TestReaderConsumerGroup/(consumer_group_commits_on_close|verify_offset)",
		env:  []string{"KAFKA_VERSION=4.0.0"},
	}
	plain, sasl := "127.0.0.1:0", "127.0.0.1:0"
	if os.Getenv("STRATA_SUITES") != "" {
		s.run, plain, sasl = ".", "127.0.0.1:9092", "127.0.0.1:9093"
	}
	listen := func(addr, name string, how kafka.Security) (port string) {
		ln, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		own.listen(&kafka.Listener{Listener: ln, Name: name, Security: how})
		_, port, err = net.SplitHostPort(ln.Addr().String())
		require.NoError(t, err)
		return port
	}
	plain = listen(plain, "KAFKA_GO", kafka.Security{})
	sasl = listen(sasl, "KAFKA_GO_SASL", kafka.Security{SASL: &kafka.SASL{
		Plain: kafka.StaticPasswords(map[string]string{"adminplain": "admin-secret"}),
		Scram: []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512},
	}})
	if plain != "9092" {
		s.instead = map[string]string{
			`TCP("localhost")`: `TCP("localhost:` + plain + `")`,
			"localhost:9092":   "localhost:" + plain, "127.0.0.1:9092": "127.0.0.1:" + plain,
			"localhost:9093": "localhost:" + sasl, "127.0.0.1:9093": "127.0.0.1:" + sasl,
		}
	}
	adm := admin(t, own.targets[0])
	for user, as := range map[string]kadm.UpsertSCRAM{
		"adminscram256": {Mechanism: kadm.ScramSha256, Password: "admin-secret-256"},
		"adminscram512": {Mechanism: kadm.ScramSha512, Password: "admin-secret-512"},
	} {
		as.User, as.Iterations = user, 4096
		altered, err := adm.AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{as})
		require.NoError(t, err)
		require.NoError(t, altered.Error())
	}
	createNamed(t, own.targets[0], "test-writer-0", 1) // "is guaranteed to exist"
	r := runSuite(t, s)
	s.pkg, s.run = "sasl", "."
	of := runSuite(t, s)
	for _, name := range append(r.failed, of.failed...) {
		known := slices.ContainsFunc(slices.Collect(maps.Keys(kafkaGoFails)), func(k string) bool { return k == name || strings.HasPrefix(k, name+"/") })
		require.True(t, known, "%s fails", name)
	}
	for _, name := range []string{"TestAlterUserScramCredentials", "TestDescribeUserScramCredentials", "TestUnsupportedSASLMechanism", "TestClientCreateACLs",
		"TestClientDeleteACLs", "TestClientDescribeACLs", "TestWriter/writing_a_message_with_SASL_Plain_authentication"} {
		require.Contains(t, r.passed, name)
	}
	require.Contains(t, of.passed, "TestSASL/SCRAM-SHA-512_success")
	t.Logf("%d pass, %d fail with a known reason", len(r.passed)+len(of.passed), len(r.failed))
}

// A suite is the tests of a package of a module that this module requires.
type suite struct {
	module, pkg string
	run, skip   string // values of go test's -run and -skip flags
	env         []string
	instead     map[string]string // replacements for texts in the suite's files

	// disturbed matches the output of a test that fails because a broker died, and not because of
	// the records it read. A failed test is excused if its output has no other lines.
	disturbed *regexp.Regexp
}

// said matches a line of a test's output with its file and line number.
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

// The results of a suite's tests, by their names.
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
		if err := os.Chmod(path, 0o755); err != nil { // modules are stored read-only
			return err
		}
		if len(s.instead) == 0 || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for of, with := range s.instead {
			text = bytes.ReplaceAll(text, []byte(of), []byte(with))
		}
		return os.WriteFile(path, text, 0o755)
	}))
	goCommand := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join(dir, s.pkg)
		// -trimpath: compiled packages do not depend on the directory, and are not compiled again.
		cmd.Env = append(os.Environ(), append(s.env, "GOWORK=off", "GOFLAGS=-mod=mod -trimpath")...)
		cmd.WaitDelay = time.Second
		return cmd.CombinedOutput()
	}
	if out, err := goCommand("mod", "tidy"); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	// The command fails if a test does; the failures are in its output.
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

// undisturbed runs a suite, and its disturbed tests again, until each test has passed or failed,
// or most times. It returns the passed tests, and the others: failed, or disturbed in every run.
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
