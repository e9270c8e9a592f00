package apache

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed pom.xml
var pom []byte

//go:embed tests.xml
var testsPom []byte

// Version is the release of Apache Kafka that pom.xml names.
const Version = "4.3.0"

// ErrMissing reports that java or mvn is not installed.
var ErrMissing = errors.New("apache: needs java and mvn")

// A Kit is an installed Apache Kafka.
type Kit struct{ classpath string }

// Install resolves the jars, once per machine. It returns ErrMissing if java or mvn is not
// installed.
func Install(ctx context.Context) (*Kit, error) { return install(ctx, "classpath", Version, pom) }

// InstallRelease is Install of another release of Kafka's.
func InstallRelease(ctx context.Context, version string) (*Kit, error) {
	return install(ctx, "classpath", version, pom)
}

// InstallTests is Install with Kafka's tests of its brokers, and their dependencies.
func InstallTests(ctx context.Context) (*Kit, error) { return install(ctx, "tests", Version, testsPom) }

// install resolves the dependencies in a pom.xml for a release. name distinguishes cached results.
func install(ctx context.Context, name, version string, pom []byte) (*Kit, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "strata-interop")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// The name depends on pom.xml too: the classpath of an older one may lack a jar.
	path := filepath.Join(dir, fmt.Sprintf("%s-%s-%08x", name, version, crc32.ChecksumIEEE(pom)))
	if classpath, err := os.ReadFile(path); err == nil && present(string(classpath)) {
		return &Kit{string(classpath)}, nil
	}
	tmp, err := os.MkdirTemp(dir, "install")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o644); err != nil {
		return nil, err
	}
	out := filepath.Join(tmp, "classpath")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(tmp, "pom.xml"), "dependency:build-classpath",
		"-Dkafka.version="+version, "-Dmdep.outputFile="+out)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("apache: mvn: %w: %s", err, bytes.TrimSpace(msg))
	}
	if err := os.Rename(out, path); err != nil {
		return nil, err
	}
	classpath, err := os.ReadFile(path)
	return &Kit{string(classpath)}, err
}

// present reports whether all jars of a classpath still exist.
func present(classpath string) bool {
	for _, jar := range strings.Split(classpath, string(os.PathListSeparator)) {
		if _, err := os.Stat(jar); err != nil {
			return false
		}
	}
	return true
}

// Java returns a command that runs java with Kafka's classes: a main class, or a
// single-file program, and its arguments.
func (k *Kit) Java(ctx context.Context, args ...string) *exec.Cmd {
	// Short runs: the first compiler only, a small heap, the simplest collector.
	return exec.CommandContext(ctx, "java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", k.classpath}, args...)...)
}

// Before returns a Kit whose classes in dir, of the same names or other ones, come before Kafka's.
func (k *Kit) Before(dir string) *Kit {
	return &Kit{dir + string(os.PathListSeparator) + k.classpath}
}

// Compile returns a command that compiles source files to classes in dir.
func (k *Kit) Compile(ctx context.Context, dir string, sources ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "javac", append([]string{"-d", dir, "-cp", k.classpath}, sources...)...)
}

// tools are the main classes behind Kafka's scripts.
var tools = map[string]string{
	"topics":                    "org.apache.kafka.tools.TopicCommand",
	"configs":                   "kafka.admin.ConfigCommand",
	"console-producer":          "org.apache.kafka.tools.ConsoleProducer",
	"console-consumer":          "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"consumer-groups":           "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"groups":                    "org.apache.kafka.tools.GroupsCommand",
	"get-offsets":               "org.apache.kafka.tools.GetOffsetShell",
	"delete-records":            "org.apache.kafka.tools.DeleteRecordsCommand",
	"leader-election":           "org.apache.kafka.tools.LeaderElectionCommand",
	"log-dirs":                  "org.apache.kafka.tools.LogDirsCommand",
	"metadata-quorum":           "org.apache.kafka.tools.MetadataQuorumCommand",
	"features":                  "org.apache.kafka.tools.FeatureCommand",
	"broker-api-versions":       "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"cluster":                   "org.apache.kafka.tools.ClusterTool",
	"producer-perf-test":        "org.apache.kafka.tools.ProducerPerformance",
	"consumer-perf-test":        "org.apache.kafka.tools.ConsumerPerformance",
	"e2e-latency":               "org.apache.kafka.tools.EndToEndLatency",
	"verifiable-producer":       "org.apache.kafka.tools.VerifiableProducer",
	"verifiable-consumer":       "org.apache.kafka.tools.VerifiableConsumer",
	"reassign-partitions":       "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
	"transactions":              "org.apache.kafka.tools.TransactionsCommand",
	"acls":                      "org.apache.kafka.tools.AclCommand",
	"share-groups":              "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
	"dump-log":                  "org.apache.kafka.tools.DumpLogSegments",
	"metadata-shell":            "org.apache.kafka.shell.MetadataShell",
	"client-metrics":            "org.apache.kafka.tools.ClientMetricsCommand",
	"delegation-tokens":         "org.apache.kafka.tools.DelegationTokenCommand",
	"console-share-consumer":    "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
	"share-consumer-perf-test":  "org.apache.kafka.tools.ShareConsumerPerformance",
	"verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
	"streams-groups":            "org.apache.kafka.tools.streams.StreamsGroupCommand",
	"streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
}

// Scripts creates in dir the scripts that Kafka has as bin/kafka-*.sh.
func (k *Kit) Scripts(dir string) error {
	for name := range tools {
		args := k.Tool(context.Background(), name).Args
		for i, a := range args {
			args[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		text := "#!/bin/sh\nexec " + strings.Join(args, " ") + ` "$@"` + "\n"
		if err := os.WriteFile(filepath.Join(dir, "kafka-"+name+".sh"), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Tool returns a command that runs one of Kafka's scripts by its name without "kafka-" and ".sh".
// An unknown name is a mistake in the caller: it panics.
func (k *Kit) Tool(ctx context.Context, name string, args ...string) *exec.Cmd {
	class, ok := tools[name]
	if !ok {
		panic("apache: no tool " + name)
	}
	return k.Java(ctx, append([]string{class}, args...)...)
}
