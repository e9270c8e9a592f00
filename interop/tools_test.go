package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scripts maps each script in the bin directory of Apache Kafka 4.3 to the place where it is run
// against Strata. A script that is not run maps to the reason.
var scripts = map[string]string{
	"connect-distributed.sh":             "no part of a broker: a client as any other",
	"connect-mirror-maker.sh":            "no part of a broker: a client as any other",
	"connect-plugin-path.sh":             "asks no broker",
	"connect-standalone.sh":              "no part of a broker: a client as any other",
	"kafka-acls.sh":                      "toolSteps",
	"kafka-broker-api-versions.sh":       "toolSteps",
	"kafka-client-metrics.sh":            "toolSteps",
	"kafka-cluster.sh":                   "administer",
	"kafka-configs.sh":                   "toolSteps",
	"kafka-console-consumer.sh":          "tools/console-producer-and-consumer",
	"kafka-console-producer.sh":          "tools/console-producer-and-consumer",
	"kafka-console-share-consumer.sh":    "toolSteps",
	"kafka-consumer-groups.sh":           "toolSteps",
	"kafka-consumer-perf-test.sh":        "tools/perf-tests",
	"kafka-delegation-tokens.sh":         "toolSteps",
	"kafka-delete-records.sh":            "toolSteps",
	"kafka-dump-log.sh":                  "TestKafkasDumpToolReadsOurFiles",
	"kafka-e2e-latency.sh":               "toolSteps",
	"kafka-features.sh":                  "tools/cluster",
	"kafka-get-offsets.sh":               "toolSteps",
	"kafka-groups.sh":                    "toolSteps",
	"kafka-jmx.sh":                       "asks a Java process, no broker",
	"kafka-leader-election.sh":           "administer",
	"kafka-log-dirs.sh":                  "administer",
	"kafka-metadata-quorum.sh":           "administer",
	"kafka-metadata-shell.sh":            "TestKafkasMetadataToolsReadEveryBrokersCopy",
	"kafka-producer-perf-test.sh":        "tools/perf-tests",
	"kafka-reassign-partitions.sh":       "administer",
	"kafka-replica-verification.sh":      "never ends: a client that fetches, as others do",
	"kafka-run-class.sh":                 "starts the others",
	"kafka-server-start.sh":              "starts Kafka's broker: see TestKafkaTakesOneOver and others",
	"kafka-server-stop.sh":               "stops Kafka's broker",
	"kafka-share-consumer-perf-test.sh":  "toolSteps",
	"kafka-share-groups.sh":              "toolSteps",
	"kafka-storage.sh":                   "asks no broker",
	"kafka-streams-application-reset.sh": "toolSteps",
	"kafka-streams-groups.sh":            "toolSteps",
	"kafka-topics.sh":                    "toolSteps",
	"kafka-transactions.sh":              "tools/transactions",
	"kafka-verifiable-consumer.sh":       "tools/verifiable-producer-and-consumer",
	"kafka-verifiable-producer.sh":       "tools/verifiable-producer-and-consumer",
	"kafka-verifiable-share-consumer.sh": "toolSteps",
	"trogdor.sh":                         "asks agents of its own",
}

// A step runs a tool with these arguments and perhaps input. {FILE} stands for a file with the
// content of the field file.
type step struct {
	tool    string
	args    string
	stdin   string
	file    string
	chance  bool   // the output depends on time: only the exit code is compared
	differs string // the reason why the output differs from Kafka's

	does func(t *testing.T, addr string) // runs instead of a tool, against the brokers
}

// toolSteps are the steps, in order, with the tools that no other test runs.
var toolSteps = []step{
	{tool: "topics", args: "--create --topic jobs --partitions 2"},
	{tool: "topics", args: "--create --topic jobs"},
	{tool: "topics", args: "--create --topic jobs --if-not-exists"},
	{tool: "topics", args: "--create --topic no/name"},
	{tool: "topics", args: "--create --topic wrong --partitions 0"},
	{tool: "topics", args: "--create --topic wrong --replication-factor 2"},
	{tool: "topics", args: "--create --topic wrong --config retention.ms=soon"},
	{tool: "topics", args: "--create --topic wrong --config no.such.config=1"},
	{tool: "topics", args: "--alter --topic jobs --partitions 1"},
	{tool: "topics", args: "--describe --topic none"},
	{tool: "topics", args: "--delete --topic none"},
	{tool: "topics", args: "--list"},

	{tool: "configs", args: "--alter --entity-type topics --entity-name jobs --add-config retention.ms=1,cleanup.policy=nonsense"},
	{tool: "configs", args: "--alter --entity-type topics --entity-name jobs --add-config retention.ms=12345678,cleanup.policy=[compact,delete]"},
	{tool: "configs", args: "--describe --entity-type topics --entity-name jobs"},
	{tool: "configs", args: "--alter --entity-type topics --entity-name jobs --delete-config retention.ms,cleanup.policy"},
	{tool: "configs", args: "--alter --entity-type users --entity-name alice --add-config producer_byte_rate=1048576,SCRAM-SHA-256=[iterations=4096,password=secret]"},
	{tool: "configs", args: "--alter --entity-type users --entity-name alice --add-config producer_byte_rate=1048576"},
	{tool: "configs", args: "--alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[iterations=4096,password=secret]"},
	{tool: "configs", args: "--alter --entity-type users --entity-default --entity-type clients --entity-name web --add-config request_percentage=50"},
	{tool: "configs", args: "--alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=7"},
	{tool: "configs", args: "--describe --entity-type users"},
	{tool: "configs", args: "--describe --entity-type users --entity-name alice"},
	{tool: "configs", args: "--describe --entity-type users --entity-default --entity-type clients --entity-name web"},
	{tool: "configs", args: "--describe --entity-type ips"},
	{tool: "configs", args: "--alter --entity-type users --entity-name alice --delete-config producer_byte_rate,SCRAM-SHA-256"},
	{tool: "configs", args: "--alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256"},
	{tool: "configs", args: "--alter --entity-type groups --entity-name workers --add-config share.record.lock.duration.ms=20000,share.auto.offset.reset=earliest"},
	{tool: "configs", args: "--alter --entity-type groups --entity-name workers --add-config share.record.lock.duration.ms=1"},
	{tool: "configs", args: "--describe --entity-type groups --entity-name workers"},

	{tool: "acls", args: "--add --allow-principal User:alice --operation Read --operation Write --topic jobs --group workers"},
	{tool: "acls", args: "--add --allow-principal User:bob --producer --topic job --resource-pattern-type prefixed --transactional-id t --idempotent"},
	{tool: "acls", args: "--add --deny-principal User:* --deny-host 10.1.1.1 --operation All --cluster"},
	{tool: "acls", args: "--add --allow-principal alice --operation Read --topic jobs"},
	{tool: "acls", args: "--list"},
	{tool: "acls", args: "--list --topic jobs --resource-pattern-type match"},
	{tool: "acls", args: "--list --principal User:bob --topic *"},
	{tool: "acls", args: "--remove --force --topic jobs --group workers"},
	{tool: "acls", args: "--remove --force --allow-principal User:bob --producer --topic job --resource-pattern-type prefixed --transactional-id t --idempotent"},
	{tool: "acls", args: "--list"},
	{tool: "acls", args: "--remove --force --cluster"},

	{tool: "client-metrics", args: "--alter --name slow --metrics org.apache.kafka.producer.,org.apache.kafka.consumer. --interval 30000 --match client_id=web.*"},
	{tool: "client-metrics", args: "--alter --name slow --interval 1"},
	{tool: "client-metrics", args: "--describe --name slow"},
	{tool: "client-metrics", args: "--list"},
	{tool: "client-metrics", args: "--describe"},
	{tool: "client-metrics", args: "--alter --name slow --match what=x"},
	{tool: "client-metrics", args: "--alter --name slow --interval default --match default"},
	{tool: "configs", args: "--describe --entity-type client-metrics --entity-name slow --all"},
	{tool: "configs", args: "--alter --entity-type client-metrics --entity-name slow --add-config interval.ms=1000,what=1"},
	{tool: "configs", args: "--alter --entity-type client-metrics --entity-name slow --delete-config metrics"},
	{tool: "configs", args: "--describe --entity-type client-metrics"},
	{tool: "client-metrics", args: "--delete --name slow"},
	{tool: "client-metrics", args: "--list"},

	{tool: "delegation-tokens", args: "--create --max-life-time-period -1 --command-config {FILE}", file: "request.timeout.ms=20000"},
	{tool: "delegation-tokens", args: "--describe --command-config {FILE}", file: "request.timeout.ms=20000"},

	{tool: "console-producer", args: "--topic jobs --reader-property parse.key=true --reader-property key.separator=:", stdin: "k:one\nk:two\nk:three\n"},
	{tool: "get-offsets", args: "--topic jobs"},
	{tool: "get-offsets", args: "--topic jobs --time earliest"},
	{tool: "get-offsets", args: "--topic-partitions jobs:0-1 --time max-timestamp"},
	{tool: "get-offsets", args: "--topic-partitions jobs --time 1"},
	{tool: "get-offsets", args: "--topic none"},
	{tool: "console-share-consumer", args: "--topic jobs --group workers --max-messages 3 --timeout-ms 30000 --formatter-property print.key=true --formatter-property print.delivery=true"},
	{tool: "share-groups", args: "--list"},
	{tool: "share-groups", args: "--describe --group workers", differs: "Kafka stores a later start of the group with the next change; and of partitions that nobody has read there is no state yet"},
	{tool: "share-groups", args: "--describe --group workers --members"},
	{tool: "share-groups", args: "--describe --group workers --state --verbose", chance: true},
	{tool: "share-groups", args: "--describe --group none"},
	{tool: "share-groups", args: "--reset-offsets --group workers --topic jobs --to-earliest --dry-run"},
	{tool: "share-groups", args: "--reset-offsets --group workers --all-topics --to-latest --execute"},
	{tool: "share-groups", args: "--reset-offsets --group workers --topic jobs --to-datetime 2001-01-01T00:00:00.000 --execute"},
	{tool: "share-groups", args: "--describe --group workers --offsets"},
	{tool: "share-groups", args: "--delete-offsets --group workers --topic jobs"},
	{tool: "share-groups", args: "--delete-offsets --group workers --topic none"},
	{tool: "verifiable-share-consumer", args: "--topic jobs --group-id verified --max-messages 3 --offset-reset-strategy earliest", chance: true},
	{tool: "share-consumer-perf-test", args: "--topic jobs --group workers --num-records 3 --hide-header --reporting-interval 100000", chance: true},
	{tool: "groups", args: "--list"},
	{tool: "groups", args: "--list --share"},
	{tool: "groups", args: "--list --consumer"},
	{tool: "consumer-groups", args: "--describe --group workers"},
	{tool: "consumer-groups", args: "--delete --group workers"},
	{tool: "consumer-groups", args: "--reset-offsets --group readers --topic jobs --to-offset 2 --execute"},
	{tool: "consumer-groups", args: "--reset-offsets --group readers --topic jobs --shift-by -1 --dry-run"},
	{tool: "consumer-groups", args: "--reset-offsets --group readers --all-topics --by-duration PT0S --export --dry-run"},
	{tool: "consumer-groups", args: "--reset-offsets --group readers --from-file {FILE} --execute", file: "jobs,0,1\njobs,1,0\n"},
	{tool: "consumer-groups", args: "--describe --group readers --offsets"},
	{tool: "consumer-groups", args: "--describe --all-groups --state"},
	{tool: "consumer-groups", args: "--delete-offsets --group readers --topic jobs:0"},
	{tool: "consumer-groups", args: "--list --state --type"},
	{tool: "consumer-groups", args: "--delete --group readers"},
	{tool: "consumer-groups", args: "--delete --group readers"},
	{tool: "share-groups", args: "--delete --group workers"},
	{tool: "share-groups", args: "--delete --group workers"},

	{tool: "delete-records", args: "--offset-json-file {FILE}", file: `{"partitions":[{"topic":"jobs","partition":0,"offset":-1},{"topic":"jobs","partition":1,"offset":99},"version":1}`},
	{tool: "e2e-latency", args: "--topic jobs --num-records 20 --record-size 10 --producer-acks all", chance: true},
	{tool: "streams-application-reset", args: "--application-id app --input-topics jobs --force"},
	{tool: "topics", args: "--delete --topic jobs"},
	{tool: "broker-api-versions", differs: "APIs for several directories of a broker and controllers are not there"},
}

// either matches text that differs between any two runs of a tool.
var either = regexp.MustCompile(`127\.0\.0\.1:\d+|localhost:\d+|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.:,]\d{3}Z?|TopicId: \S+|\t?Configs: \S*|-?\d+\.\d{4}|CreateTime:\d+|"timestamp":\d+|\b[A-Za-z0-9_-]{22}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\(org\.apache\.kafka\.[a-zA-Z.]*\)`)

// saidBy returns a tool's output and exit code. Lines are sorted: Kafka's tools keep much in hash
// tables.
func (x *transcribed) saidBy(s step) string {
	if s.does != nil {
		s.does(x.t, x.k.addr)
		return ""
	}
	args := strings.Fields(s.args)
	if s.file != "" {
		file := filepath.Join(x.t.TempDir(), "file")
		writeFile(x.t, file, s.file)
		for i, a := range args {
			if a == "{FILE}" {
				args[i] = file
			}
		}
	}
	cmd := kafkaKit(x.t).Tool(within(x.t), s.tool, append([]string{"--bootstrap-server", x.k.addr}, args...)...)
	cmd.Stdin = strings.NewReader(s.stdin)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		out = append(out, exit.String()...)
	} else {
		require.NoError(x.t, err)
	}
	if s.chance {
		return fmt.Sprint(err)
	}
	lines := strings.Split(either.ReplaceAllString(warning.ReplaceAllString(string(out), ""), "OWN"), "\n")
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}

func TestAllOfKafkasToolsSayWhatTheySayOfKafka(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("it takes minutes; set STRATA_LONG")
	}
	clusters := map[string]func() target{
		"strata": func() target { return startStrataAuthorizing(t) },
		"kafka": func() target {
			return startKafkaWith(t, "auto.create.topics.enable=false", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS")
		},
	}
	steps := slices.Concat(toolSteps, streamsSteps)
	said := map[string][]string{}
	for kind, start := range clusters {
		x := &transcribed{t: t, k: administered{target: start()}}
		for _, s := range steps {
			said[kind] = append(said[kind], x.saidBy(s))
		}
	}
	for i, s := range steps {
		theirs, ours := said["kafka"][i], said["strata"][i]
		if same := theirs == ours; same != (s.differs == "") {
			t.Errorf("%s %s: it differs: %v, listed: %q\nKafka:  %s\nStrata: %s", s.tool, s.args, !same, s.differs, theirs, ours)
		}
	}
}

// Each of Kafka's scripts is run by a test, or the list has the reason why not.
func TestNoneOfKafkasScriptsIsForgotten(t *testing.T) {
	run := map[string]bool{}
	for _, s := range slices.Concat(toolSteps, streamsSteps) {
		if s.does == nil {
			run["kafka-"+s.tool+".sh"] = true
		}
	}
	for name, where := range scripts {
		if where == "toolSteps" {
			require.True(t, run[name], name)
		} else if strings.HasPrefix(where, "tools/") {
			require.True(t, slices.ContainsFunc(checks, func(c check) bool { return c.name == where }), where)
		}
		delete(run, name)
	}
	require.Empty(t, run)
}
