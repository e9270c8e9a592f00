package interop

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/interop/apache"
)

// A target is a broker that checks run against.
type target struct {
	kind string // strata, kafka, broker
	addr string // HOST:PORT, or several of them with commas
	dir  string // directory of its partitions; "": not known
}

// A check tests one operation with one client. It creates its own topics and groups, since checks
// run concurrently and repeatedly.
type check struct {
	name string // CLIENT/OPERATION
	run  func(t *testing.T, k target)
}

// checks lists all checks; the files of the clients add theirs.
var checks []check

func add(name string, run func(t *testing.T, k target)) bool {
	checks = append(checks, check{name, run})
	return true
}

// checkTimeout bounds one check.
const checkTimeout = 90 * time.Second

// runAll runs every check against k; against a real Kafka one in three (internal/sample), to see
// that the checks are right. For Strata, allow.txt lists the checks that are expected to pass.
func runAll(t *testing.T, k target) {
	look := func(int) bool { return true }
	if k.kind == "kafka" {
		look = sample.OneIn(t, 3)
	}
	excused := map[string]string{}
	if k.kind == "strata" {
		excused = readAllowed(t)
	}
	for i, c := range checks {
		if !look(i) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if reason := excused[c.name]; reason != "" {
				t.Skip("not expected to pass: ", reason)
			}
			t.Parallel()
			c.run(t, k)
		})
	}
}

// readAllowed returns the reasons of the checks that are not expected to pass. It fails if
// allow.txt and the list of checks differ, so that no check is lost or left unlisted.
func readAllowed(t *testing.T) map[string]string {
	f, err := os.Open("allow.txt")
	require.NoError(t, err)
	defer f.Close()
	excused, listed := map[string]string{}, []string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(s.Text()), " ")
		name, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch verdict {
		case "", "#":
			continue
		case "pass":
		case "fails":
			require.NotEmpty(t, strings.TrimSpace(reason), "allow.txt: %s has no reason", name)
			excused[name] = strings.TrimSpace(reason)
		default:
			t.Fatalf("allow.txt: %q", s.Text())
		}
		listed = append(listed, name)
	}
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	slices.Sort(names)
	slices.Sort(listed)
	require.Equal(t, names, listed, "allow.txt does not name every check once")
	return excused
}

// startKafka starts a real broker, until the end of the test. features are levels that differ from
// Kafka's defaults, such as transaction.version=1.
func startKafka(t *testing.T, features ...string) target {
	t.Helper()
	kit := kafkaKit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b, err := kit.StartAt(ctx, t.TempDir(), features)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return target{kind: "kafka", addr: b.Addr, dir: b.Dir}
}

// TestApacheKafka runs checks against a real broker: one in three, and all with STRATA_LONG.
func TestApacheKafka(t *testing.T) {
	t.Parallel()
	k := startKafka(t)
	awaitCoordinators(t, k)
	runAll(t, k)
}

// awaitCoordinators returns when every partition of the offsets topic has its coordinator. Until
// then some clients fail.
func awaitCoordinators(t *testing.T, k target) {
	t.Helper()
	var groups []string
	for i := range 40 { // of four partitions
		groups = append(groups, "g"+itoa(i))
	}
	adm := admin(t, k)
	eventually(t, "there is a coordinator for every group", func() bool {
		for _, got := range adm.FetchManyOffsets(within(t), groups...) {
			if got.Err != nil {
				return false
			}
		}
		return true
	})
}

// TestBroker runs the checks against the broker at STRATA_INTEROP_BROKER.
func TestBroker(t *testing.T) {
	addr := os.Getenv("STRATA_INTEROP_BROKER")
	if addr == "" {
		t.Skip("STRATA_INTEROP_BROKER is not set")
	}
	runAll(t, target{kind: "broker", addr: addr})
}

// need skips the test if a program is missing; in CI the test fails.
func need(t *testing.T, programs ...string) {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing(t, p+" is not installed")
		}
	}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

var kit = sync.OnceValues(func() (*apache.Kit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return apache.Install(ctx)
})

// kafkaKit returns the installed Apache Kafka.
func kafkaKit(t *testing.T) *apache.Kit {
	t.Helper()
	need(t, "java", "mvn")
	k, err := kit()
	require.NoError(t, err)
	return k
}

// kafkaRelease returns the installed Apache Kafka of a release; "" is kafkaKit's.
func kafkaRelease(t *testing.T, release string) *apache.Kit {
	t.Helper()
	if release == "" {
		return kafkaKit(t)
	}
	need(t, "java", "mvn")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	k, err := apache.InstallRelease(ctx, release)
	require.NoError(t, err)
	return k
}

// fresh returns an unused name.
func fresh(prefix string) string {
	var b [6]byte
	rand.Read(b[:])
	return prefix + "-" + hex.EncodeToString(b[:])
}

// within returns the context of a check.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
	t.Cleanup(cancel)
	return ctx
}

// newTopic creates a topic and returns its name.
func newTopic(t *testing.T, k target, partitions int32, configs ...string) string {
	t.Helper()
	name := fresh("topic")
	createNamed(t, k, name, partitions, configs...)
	return name
}

// createNamed creates a topic and waits until the brokers list it. Kafka's brokers list it a
// little later.
func createNamed(t *testing.T, k target, name string, partitions int32, configs ...string) {
	t.Helper()
	set := map[string]*string{}
	for _, c := range configs {
		key, value, _ := strings.Cut(c, "=")
		set[key] = &value
	}
	adm := admin(t, k)
	_, err := adm.CreateTopic(within(t), partitions, 1, set, name)
	require.NoError(t, err)
	eventually(t, "the topic is known", func() bool {
		got, err := adm.ListTopicsWithInternal(within(t), name)
		return err == nil && len(got[name].Partitions) == int(partitions) && got[name].Partitions[0].Leader >= 0
	})
}

// franz returns a franz-go client that is closed at the end of the test.
func franz(t *testing.T, k target, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds(k)...), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// seeds returns the addresses of a target.
func seeds(k target) []string { return strings.Split(k.addr, ",") }

func admin(t *testing.T, k target) *kadm.Client { return kadm.NewClient(franz(t, k)) }

// seed writes values v0, v1, ... to partition 0 of a topic.
func seed(t *testing.T, k target, topic string, n int) {
	t.Helper()
	cl := franz(t, k, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		cl.Produce(within(t), &kgo.Record{Topic: topic, Value: value(i), Key: []byte("k")}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("seeding: %v", err)
			}
		})
	}
	require.NoError(t, cl.Flush(within(t)))
}

func value(i int) []byte { return []byte("v" + itoa(i)) }

// values returns the values that seed writes.
func values(n int) (out []string) {
	for i := range n {
		out = append(out, string(value(i)))
	}
	return out
}

// readBack reads n records of partition 0.
func readBack(t *testing.T, k target, topic string, n int) (records []*kgo.Record) {
	t.Helper()
	cl := franz(t, k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	for len(records) < n {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		records = append(records, f.Records()...)
	}
	return records
}

func readValues(t *testing.T, k target, topic string, n int) (out []string) {
	t.Helper()
	for _, r := range readBack(t, k, topic, n) {
		out = append(out, string(r.Value))
	}
	return out
}

// run runs a command and returns its output; the command must succeed.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", filepath.Base(cmd.Path), out)
	return string(out)
}

// A syncBuffer is a writer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *syncBuffer) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.b)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// TestEveryCheckHasOneName keeps names usable in allow.txt and in go test -run.
func TestEveryCheckHasOneName(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks {
		require.Regexp(t, `^[a-z-]+/[A-Za-z0-9.-]+$`, c.name)
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
	}
}
