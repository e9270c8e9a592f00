package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/share"
)

// A process is a running `strata serve`.
type process struct {
	cmd   *exec.Cmd
	ready string // its first line
	addr  string
	errs  *bytes.Buffer // its stderr; valid after wait
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, append(os.Environ(), asProgram+"=1"), args...)
}

// startIn is start in an environment with nothing else in it.
func startIn(t *testing.T, env map[string]string, args ...string) *process {
	t.Helper()
	return startWith(t, environ(env), args...)
}

func startWith(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], append([]string{"serve"}, args...)...), errs: &bytes.Buffer{}}
	p.cmd.Env = env
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		p.ready = line
		p.addr = regexp.MustCompile(`[a-z0-9.]+:\d+`).FindString(line)
	}
	return p
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return p.cmd.ProcessState.ExitCode()
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation()}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestServeKeepsItsDirectoryOverATermination(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	require.Regexp(t, `^ready 127\.0\.0\.1:\d+\n$`, p.ready)
	c := client(t, p.addr)
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
	c.Close()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Empty(t, p.errs.String())
	require.FileExists(t, filepath.Join(dir, "broker-1", ".kafka_cleanshutdown"))
	r := strataRun(t, "verify", dir)
	require.Equal(t, exitOK, r.code, r.out)

	p = start(t, "--dir", dir, "--json")
	require.Regexp(t, `^{"type":"ready","address":"127\.0\.0\.1:\d+","listen":"127\.0\.0\.1:\d+"}\n$`, p.ready)
	c = client(t, p.addr, kgo.ConsumeTopics("orders"))
	fs := c.PollFetches(t.Context())
	require.NoError(t, fs.Err())
	require.Equal(t, "one", string(fs.Records()[0].Value))
	c.Close()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
}

func TestServeRefusesALockedDirectoryAndATakenPort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	second := start(t, "--dir", dir)
	require.Equal(t, exitFailed, second.wait(t))
	require.Empty(t, second.ready)
	require.Contains(t, second.errs.String(), "directory is in use")

	other := filepath.Join(t.TempDir(), "other")
	third := start(t, "--dir", other, "--listen", p.addr)
	require.Equal(t, exitFailed, third.wait(t))
	require.Contains(t, third.errs.String(), "address already in use")
	require.NoDirExists(t, other)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
}

// The error of a cluster without half of its brokers names the flag that makes it start.
func TestServeAcceptsALossOfMetadataIfAsked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir, "--brokers", "2")
	require.NotEmpty(t, p.ready)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "broker-2")))

	p = start(t, "--dir", dir)
	require.Equal(t, exitFailed, p.wait(t))
	require.Contains(t, p.errs.String(), "serve: --accept-metadata-loss")
	p = start(t, "--dir", dir, "--accept-metadata-loss")
	require.NotEmpty(t, p.ready)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
}

func TestReadyLineNamesTheListenerOnlyIfClientsGetAnotherAddress(t *testing.T) {
	for _, c := range [][2]string{
		{"localhost:0", `^ready localhost:\d+\n$`},
		{"127.0.0.1:0", `^ready 127\.0\.0\.1:\d+\n$`},
	} {
		p := start(t, "--memory", "--listen", c[0])
		require.Regexp(t, c[1], p.ready)
	}
	p := start(t, "--memory", "--brokers", "2", "--listen", "localhost:0,localhost:0")
	require.Regexp(t, `^ready localhost:\d+,localhost:\d+\n$`, p.ready)
	p = start(t, "--memory", "--listen", ":0", "--allow-public")
	require.Regexp(t, `^ready localhost:\d+ listening on \[::\]:\d+\n$`, p.ready)
	require.False(t, sameAddresses("localhost:19092", "127.0.0.1:9092"), "the ports differ")
	require.False(t, sameAddresses("example.invalid:9092", "127.0.0.1:9092"))
}

func TestServeSettings(t *testing.T) {
	p := start(t, "--memory", "--set", "num.partitions=7", "--advertise", "example.invalid:19092")
	require.Regexp(t, `^ready example.invalid:19092 listening on 127`, p.ready)
	p = start(t, "--memory", "--set", "num.partitions=7", "--set", "log.retention.hours=2")
	c := client(t, p.addr)
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
	var cfg strata.Config
	var kcfg kafka.Config
	require.NoError(t, applySettings(&cfg, &kcfg, []string{"log.retention.hours=2", "auto.create.topics.enable=false", "offsets.retention.minutes=5"}))
	require.Equal(t, map[string]string{"retention.ms": "7200000"}, cfg.Defaults.Properties)
	require.True(t, kcfg.NoAutoCreate)
	require.EqualValues(t, 300, cfg.Group.OffsetsRetention.Seconds())

	p = start(t, "--memory", "--auto-create=false")
	c = client(t, p.addr, kgo.UnknownTopicRetries(0))
	require.Error(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
}

func TestServeSettingsOfGroupsOfAllKinds(t *testing.T) {
	var cfg strata.Config
	require.NoError(t, applySettings(&cfg, &kafka.Config{}, []string{
		"offsets.topic.replication.factor=1", "group.consumer.assignment.interval.ms=7",
		"group.share.session.timeout.ms=50001", "group.share.heartbeat.interval.ms=5001", "group.share.max.size=9",
		"group.share.assignment.interval.ms=0", "group.share.record.lock.duration.ms=15000", "group.share.delivery.count.limit=2",
		"group.share.partition.max.record.locks=300", "share.coordinator.state.topic.num.partitions=4",
		"share.coordinator.state.topic.replication.factor=2", "share.coordinator.state.topic.min.isr=1",
	}))
	require.Equal(t, group.Config{
		OffsetsReplicas: 1, ConsumerAssignmentInterval: 7 * time.Millisecond,
		ShareSessionTimeout: 50001 * time.Millisecond, ShareHeartbeatInterval: 5001 * time.Millisecond, ShareMaxSize: 9,
		ShareAssignmentInterval: group.Unlimited,
	}, cfg.Group)
	require.Equal(t, share.Config{
		LockDuration: 15 * time.Second, MaxDeliveryCount: 2, MaxInFlight: 300,
		Topic: share.TopicConfig{Partitions: 4, Replicas: 2, MinInSync: 1},
	}, cfg.Shares)
	require.Error(t, applySettings(&cfg, &kafka.Config{}, []string{"group.share.delivery.count.limit=1"}), "Kafka's least is 2")
}

func TestServeMisuse(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--memory", "--dir", "x"}, {"--memory", "--set", "x=1"}, {"--memory", "--set", "num.partitions"},
		{"--memory", "--set", "num.partitions=0"}, {"--memory", "--set", "retention.ms=x"}, {"--memory", "--set", "retention.ms=1", "--set", "log.retention.ms=1"},
		{"--memory", "--advertise", "x"}, {"--memory", "--advertise", ":1"}, {"--memory", "--log-level", "x"},
		{"--memory", "--listen", "0.0.0.0:0"}, {"--memory", "x"},
	} {
		r := strataRun(t, append([]string{"serve"}, args...)...)
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.err)
		require.Empty(t, r.out)
		require.NotEmpty(t, r.err)
	}
}

// stuck never shuts down.
type stuck struct{ asked chan struct{} }

func (s stuck) Shutdown(context.Context) error { close(s.asked); select {} }

type quick struct{}

func (quick) Shutdown(context.Context) error { return net.ErrClosed }

func TestASecondSignalStopsAtOnce(t *testing.T) {
	require.ErrorIs(t, stop(nil, time.Time{}, quick{}, quick{}), net.ErrClosed)
	// This runs in a process of its own, since the stuck goroutine never ends.
	if os.Getenv("STRATA_STUCK") == "" {
		c := exec.Command(os.Args[0], "-test.run", "^TestASecondSignalStopsAtOnce$")
		c.Env = append(os.Environ(), "STRATA_STUCK=1")
		out, err := c.CombinedOutput()
		require.Error(t, err) // its goroutine is reported as a leak
		require.Contains(t, string(out), "stopped at once by a second signal")
		return
	}
	signals, s := make(chan os.Signal, 1), stuck{make(chan struct{})}
	go func() { <-s.asked; signals <- syscall.SIGTERM }()
	os.Stdout.WriteString(stop(signals, time.Time{}, s).Error() + "\n")
}

// until is a part that shuts down when it is closed.
type until chan struct{}

func (u until) Shutdown(context.Context) error { <-u; return nil }

func TestSignalsOfOneMomentAreOneSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, part, ended := make(chan os.Signal, 2), make(until), make(chan error, 1)
		go func() { ended <- stop(signals, time.Now(), part) }()
		signals <- syscall.SIGTERM // the second one of GNU timeout
		time.Sleep(sameSignal - time.Millisecond)
		signals <- syscall.SIGINT
		synctest.Wait()
		require.Empty(t, ended)
		time.Sleep(time.Millisecond)
		signals <- syscall.SIGTERM // an impatient user
		require.ErrorIs(t, <-ended, errForced)
		close(part)
	})
}

func TestServeEndsInOrderWhenItsProcessGroupIsSignalledTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	c := client(t, p.addr)
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
	c.Close()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	require.Equal(t, exitOK, p.wait(t))
	require.Empty(t, p.errs.String())
	require.FileExists(t, filepath.Join(dir, "broker-1", ".kafka_cleanshutdown"))
}
