package interop

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/interop/apache"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/topic"
)

// Clients of three brokers with replicas on each, whose leaders are killed one after the other.
// Every acknowledged record must be there once and in order.

// partitionsRidden is the number of partitions of a ride's topic.
const partitionsRidden = 6

// startReplicated serves three brokers, with three replicas of each partition. Two of them have to
// be in sync for acks=all.
func startReplicated(t *testing.T, dir string) (*kafkatest.Server, target) {
	t.Helper()
	s := kafkatest.New(t, kafkatest.Config{
		Brokers: 3, Racks: []string{"rack1", "rack2", "rack3"}, Replicas: 3, Dir: dir, AutoCreate: true, Defaults: topic.Config{MinInSyncReplicas: 2},
	})
	return s, target{kind: "strata", addr: s.Addrs()[0] + "," + s.Addrs()[1] + "," + s.Addrs()[2], dir: dir}
}

// killLeaders kills the brokers in turn and starts each again a little later, until done is
// closed. Each broker leads a third of the partitions. killLeaders returns the number of kills.
// Call it on the test's goroutine.
func killLeaders(s *kafkatest.Server, every time.Duration, done <-chan struct{}) (kills int) {
	for {
		select {
		case <-done:
			return kills
		case <-time.After(every):
		}
		gone := int32(kills%3 + 1)
		s.KillBroker(gone)
		kills++
		select { // start the broker again even if the clients have finished
		case <-done:
		case <-time.After(every / 4):
		}
		s.StartBroker(gone)
	}
}

// A ride is the load of a client while leaders are killed.
type ride struct {
	records int           // in each partition
	pace    time.Duration // between two records of a partition
}

// newRide returns a ride during which a few leaders die; in the long form many.
func newRide() ride {
	if os.Getenv("STRATA_LONG") != "" {
		return ride{60_000, time.Millisecond}
	}
	return ride{8_000, time.Millisecond}
}

const killEvery = 2 * time.Second

// requireRead checks that every partition of a topic has 0 to n-1, each once and in order.
func requireRead(t *testing.T, k target, name string, n int) {
	t.Helper()
	at := map[int32]kgo.Offset{}
	for p := range int32(partitionsRidden) {
		at[p] = kgo.NewOffset().AtStart()
	}
	cl := franz(t, k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: at}))
	next := map[int32]int{}
	ends, err := kadm.NewClient(cl).ListEndOffsets(within(t), name)
	require.NoError(t, err)
	through := func() bool {
		for p := range int32(partitionsRidden) {
			if end, _ := ends.Lookup(name, p); int64(next[p]) < end.Offset {
				return false
			}
		}
		return true
	}
	for ctx := within(t); !through(); {
		f := cl.PollFetches(ctx)
		require.NoError(t, f.Err0())
		f.EachRecord(func(r *kgo.Record) {
			require.Equal(t, strconv.Itoa(next[r.Partition]), string(r.Value), "partition %d, offset %d", r.Partition, r.Offset)
			next[r.Partition]++
		})
	}
	for p := range int32(partitionsRidden) {
		require.Equal(t, n, next[p], "partition %d", p)
	}
}

// newRidden creates the topic of a ride.
func newRidden(t *testing.T, k target) string {
	t.Helper()
	name := fresh("ridden")
	_, err := admin(t, k).CreateTopic(within(t), partitionsRidden, -1, nil, name)
	require.NoError(t, err)
	return name
}

// writeFranz writes a ride's records with franz-go's producer, which is idempotent and uses
// acks=all.
func writeFranz(t *testing.T, k target, name string, r ride) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds(k)...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	var mu sync.Mutex
	var first error
	for n := range r.records {
		for p := range int32(partitionsRidden) {
			cl.Produce(t.Context(), &kgo.Record{Topic: name, Partition: p, Value: strconv.AppendInt(nil, int64(n), 10)}, func(_ *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			})
		}
		time.Sleep(r.pace) // the load, not a wait
	}
	if err := cl.Flush(t.Context()); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return first
}

// rideOut runs write while leaders are killed. When all brokers are in sync again, it checks that
// the ride's records can be read. With dir "" the files are in memory, and a kill loses unsynced
// data.
func rideOut(t *testing.T, dir string, write func(t *testing.T, k target, name string, r ride) error) (topic string) {
	s, k := startReplicated(t, dir)
	name, r := newRidden(t, k), newRide()
	done, failed := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		failed = write(t, k, name, r)
	}()
	kills := killLeaders(s, killEvery, done)
	require.NoError(t, failed)
	require.Greater(t, kills, 2, "the ride was too short")
	for p := range int32(partitionsRidden) {
		s.WaitISR(name, p, 1, 2, 3)
	}
	requireRead(t, k, name, r.records)
	t.Logf("%d brokers killed", kills)
	return name
}

func TestFranzGoRidesThroughKilledLeaders(t *testing.T) {
	t.Parallel()
	rideOut(t, "", writeFranz)
}

// TestKafkaReadsReplicasAndTakesOneOver has Kafka's dump tool read the logs of all three brokers
// after leaders were killed. Then a real Kafka takes over one broker's directory.
func TestKafkaReadsReplicasAndTakesOneOver(t *testing.T) {
	t.Parallel()
	kit := kafkaKit(t)
	dir, name := filepath.Join(t.TempDir(), "data"), ""
	t.Run("ride", func(t *testing.T) { // its end closes the brokers
		name = rideOut(t, dir, writeFranz)
	})
	var logs []string
	for p := range partitionsRidden {
		contents := map[int]string{}
		for broker := 1; broker <= 3; broker++ {
			files, err := filepath.Glob(filepath.Join(dir, fmt.Sprint("broker-", broker), fmt.Sprintf("%s-%d", name, p), "*.log"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, f := range files { // by base offset
				content, err := os.ReadFile(f)
				require.NoError(t, err)
				contents[broker] += string(content)
			}
			logs = append(logs, files...)
		}
		require.True(t, contents[1] == contents[2] && contents[2] == contents[3], "partition %d: the replicas differ", p)
	}
	out := run(t, kit.Tool(within(t), "dump-log", "--deep-iteration", "--files", strings.Join(logs, ",")))
	records := newRide().records
	require.Equal(t, 3*partitionsRidden*records, strings.Count(out, "\n| offset: "))
	require.NotRegexp(t, `(?i)isvalid: false|corrupt|exception|not valid|could not`, out)

	adopted := handOverReplica(t, kit, filepath.Join(dir, "broker-2"), map[string]int32{name: partitionsRidden})
	requireRead(t, adopted, name, records)
	require.NoError(t, franz(t, adopted, kgo.DefaultProduceTopic(name)).ProduceSync(within(t), kgo.StringRecord("next")).FirstErr())
}

func TestLibrdkafkaRidesThroughKilledLeaders(t *testing.T) {
	t.Parallel()
	rideOut(t, "", func(t *testing.T, k target, name string, r ride) error {
		p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": k.addr, "linger.ms": 5, "enable.idempotence": true, "acks": "all"})
		if err != nil {
			return err
		}
		defer p.Close()
		acks := make(chan kafka.Event, 10_000)
		first := make(chan error, 1)
		go func() {
			var err error
			for range r.records * partitionsRidden {
				if m := (<-acks).(*kafka.Message); err == nil {
					err = m.TopicPartition.Error
				}
			}
			first <- err
		}()
		for n := range r.records {
			for part := range int32(partitionsRidden) {
				m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &name, Partition: part}, Value: strconv.AppendInt(nil, int64(n), 10)}
				for {
					err := p.Produce(m, acks)
					if e, ok := err.(kafka.Error); ok && e.Code() == kafka.ErrQueueFull {
						time.Sleep(r.pace)
						continue
					}
					if err != nil {
						return err
					}
					break
				}
			}
			time.Sleep(r.pace) // the load, not a wait
		}
		return <-first
	})
}

func TestJavaClientRidesThroughKilledLeaders(t *testing.T) {
	t.Parallel()
	kit := kafkaKit(t)
	source, err := filepath.Abs("java/Ride.java")
	require.NoError(t, err)
	rideOut(t, "", func(t *testing.T, k target, name string, r ride) error {
		cmd := kit.Java(t.Context(), source, k.addr, name, strconv.Itoa(partitionsRidden), strconv.Itoa(r.records), strconv.FormatInt(r.pace.Milliseconds(), 10))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// TestJavaTransactionsRideThroughKilledLeaders has the Java client commit and abort transactions
// over all partitions while their leaders and the coordinator are killed. Each committed
// transaction must be in every partition once and in order, and no aborted one.
func TestJavaTransactionsRideThroughKilledLeaders(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("set STRATA_LONG")
	}
	t.Parallel()
	kit := kafkaKit(t)
	source, err := filepath.Abs("java/RideTransactions.java")
	require.NoError(t, err)
	s, k := startReplicated(t, t.TempDir())
	name, n := newRidden(t, k), newRide().records/3
	var out []byte
	done, failed := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		out, failed = kit.Java(t.Context(), source, k.addr, name, strconv.Itoa(partitionsRidden), strconv.Itoa(n), fresh("txn")).CombinedOutput()
	}()
	kills := killLeaders(s, killEvery, done)
	require.NoError(t, failed, "%s", out)
	require.Greater(t, kills, 5, "the ride was too short")
	t.Logf("%d brokers killed; %s", kills, out)
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i))
	}
	for p := range int32(partitionsRidden) {
		s.WaitISR(name, p, 1, 2, 3)
		require.Equal(t, want, readCommitted(t, k, name, p), "partition %d", p)
	}
}

// TestFranzGosOwnSuiteRidesThroughKilledLeaders is TestFranzGosOwnSuite with replicas while
// brokers are killed. Its group tests fail on every error of a poll, even a lost connection to the
// coordinator, from which the client recovers. Whether such an error occurs depends on the times
// of the kills, so tests that fail with one are run again.
func TestFranzGosOwnSuiteRidesThroughKilledLeaders(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("set STRATA_LONG")
	}
	t.Parallel()
	s, k := startReplicated(t, "")
	own := suite{
		module: "github.com/twmb/franz-go", pkg: "pkg/kgo", run: ".", disturbed: franzDisturbed,
		env: []string{"KGO_TEST_RF=3", "KGO_SEEDS=" + k.addr, "KGO_TEST_RECORDS=50000"},
	}
	var passed, not []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		passed, not = undisturbed(t, own, 8)
	}()
	kills := killLeaders(s, 7*time.Second, done)
	require.Empty(t, not)
	require.Contains(t, passed, "TestShareGroupETL")
	for _, chain := range []string{"TestGroupETL", "TestTxnEtl"} {
		for _, assignor := range []string{"range", "cooperative-sticky", "cooperative-sticky/static", "range/848", "sticky/848"} {
			require.Contains(t, passed, chain+"/"+assignor)
		}
	}
	require.Positive(t, kills)
	t.Logf("%d tests went through, %d brokers killed", len(passed), kills)
}

// franzDisturbed matches output of franz-go's tests after a coordinator's death. A poll returns an
// error for a join whose generation was not written before the death, as in Kafka; the client then
// continues. The end of a transaction may fail because the client does not retry a refused
// connection. Output about missing or duplicate records does not match.
var franzDisturbed = regexp.MustCompile(`poll got unexpected errs: \[\{ 0 unable to join group session: [^{}]*\}\]|` +
	`flush unexpected err: unable to dial: dial tcp [0-9.:]+: connect: connection refused$|completed in |NOT DELETING`)

// TestFranzGosTransactionsRideThroughKilledLeaders runs franz-go's chain of groups that copy
// topics in transactions, with three replicas while brokers are killed. It runs until every
// assignor has passed undisturbed twice.
func TestFranzGosTransactionsRideThroughKilledLeaders(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("set STRATA_LONG")
	}
	t.Parallel()
	s, k := startReplicated(t, "")
	own := suite{
		module: "github.com/twmb/franz-go", pkg: "pkg/kgo", run: "^TestTxnEtl$", disturbed: franzDisturbed,
		env: []string{"KGO_TEST_RF=3", "KGO_SEEDS=" + k.addr, "KGO_TEST_RECORDS=50000"},
	}
	rounds, through := 0, map[string]int{"TestTxnEtl/range": 0, "TestTxnEtl/cooperative-sticky": 0, "TestTxnEtl/cooperative-sticky/static": 0}
	fewest := func() int { return slices.Min(slices.Collect(maps.Values(through))) }
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; rounds < 8 && fewest() < 2; rounds++ {
			r := runSuite(t, own)
			if len(r.failed) > 0 {
				t.Errorf("%v failed", r.failed)
				return
			}
			for _, name := range r.passed {
				if _, ok := through[name]; ok {
					through[name]++
				}
			}
		}
	}()
	kills := killLeaders(s, 3*time.Second, done)
	require.GreaterOrEqual(t, fewest(), 2, "%v", through)
	t.Logf("%d rounds, %d brokers killed", rounds, kills)
}

// Only the innermost tests are run again, not their parents.
func TestInnermostOfTheDisturbed(t *testing.T) {
	require.Equal(t, []string{"A/x/y", "B", "A/xz"}, innermost([]string{"A/x/y", "A/x", "A", "B", "A/xz"}))
}

// Only errors of polls and refused connections are excused, not output about records.
func TestOnlyPollsOfAGroupWhoseCoordinatorDiedAreExcused(t *testing.T) {
	own := suite{disturbed: franzDisturbed}
	poll := "    helpers_test.go:978: poll got unexpected errs: [{ 0 unable to join group session: ILLEGAL_GENERATION: Specified group generation id is not valid.}]\n"
	rest := "    helpers_test.go:855: TestTxnEtl/range completed in 5s\n    helpers_test.go:921: FAILED TESTING -- NOT DELETING GROUP 9c\n--- FAIL: TestTxnEtl/range (5.07s)\n"
	require.True(t, own.excuses(poll+rest))
	require.True(t, own.excuses("    helpers_test.go:978: flush unexpected err: unable to dial: dial tcp 127.0.0.1:35929: connect: connection refused\n"+rest))
	require.True(t, own.excuses("[INFO] joining group\n--- FAIL: TestTxnEtl (5.07s)\n"), "the parent of one that is excused")
	require.False(t, own.excuses(poll+"    helpers_test.go:900: saw duplicate record\n"+rest))
	require.False(t, own.excuses("    helpers_test.go:978: poll got unexpected errs: [{t 0 CORRUPT_MESSAGE}]\n"))
	require.False(t, own.excuses("    helpers_test.go:978: flush unexpected err: INVALID_PRODUCER_EPOCH\n"))
	require.False(t, own.excuses(poll+"panic: test timed out\n"))
	require.False(t, suite{}.excuses(poll))
}

// handOverReplica has a new Kafka take over topics from the directory of one broker of several.
// Export needs the directories of all brokers. Kafka first gets topics of the same names and
// partition counts. While it is down, Strata's files replace Kafka's. Kafka recovers all logs: its
// clean shutdown marker and its checkpoints are removed, except the one of log start offsets.
func handOverReplica(t *testing.T, kit *apache.Kit, dir string, topics map[string]int32) target {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b, err := kit.Start(ctx, home)
	require.NoError(t, err)
	adopted := target{kind: "kafka", addr: b.Addr}
	for topic, partitions := range topics {
		if strings.HasPrefix(topic, "__") {
			createNamed(t, adopted, topic, partitions, "cleanup.policy=compact")
		} else {
			createNamed(t, adopted, topic, partitions)
		}
	}
	b.Stop()
	for topic, partitions := range topics {
		for p := range partitions {
			swapPartition(t, dir, b.Dir, fmt.Sprintf("%s-%d", topic, p))
		}
	}
	for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"} {
		os.Remove(filepath.Join(b.Dir, name))
	}
	if starts := checkpoints(t, dir, "log-start-offset-checkpoint"); starts != "" {
		writeFile(t, filepath.Join(b.Dir, "log-start-offset-checkpoint"), starts)
	}
	b, err = kit.Start(ctx, home)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	adopted.addr = b.Addr
	return adopted
}

// swapPartition replaces the files of a partition in dir with those of from, if any. It leaves the
// indexes out, so that Kafka rebuilds them.
func swapPartition(t *testing.T, from, dir, name string) {
	t.Helper()
	from, to := findPartition(t, from, name), filepath.Join(dir, name)
	if from == "" {
		return
	}
	old, err := filepath.Glob(filepath.Join(to, "*"))
	require.NoError(t, err)
	for _, f := range old {
		if filepath.Base(f) != "partition.metadata" {
			require.NoError(t, os.Remove(f))
		}
	}
	files, err := filepath.Glob(filepath.Join(from, "*"))
	require.NoError(t, err)
	for _, f := range files {
		if base := filepath.Base(f); base != "partition.metadata" && !strings.HasSuffix(base, "index") {
			content, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(to, base), content, 0o644))
		}
	}
}

// checkpoints returns the content of a checkpoint file anywhere below dir.
func checkpoints(t *testing.T, dir, name string) (content string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			b, err := os.ReadFile(path)
			content = string(b)
			return err
		}
		return err
	}))
	return content
}
