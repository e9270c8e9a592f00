package kafkadir

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// CheckConfig configures Check.
type CheckConfig struct {
	// Dir is the directory of a cluster, as in ExportConfig.
	Dir string
	FS  vfs.FS // the file system of Dir; nil means the operating system's
	// Damages has the faults that a check of all files has found, such as strata verify. A replica
	// with damaged records counts only if the export has no other one.
	Damages []Damage
}

// A CheckReport is the result of Check. The caller owns it.
type CheckReport struct {
	Brokers    []int32 // by id
	Topics     int     // including internal topics
	Partitions int
	Replicas   int
	Groups     int
	Bytes      int64 // of all files of replicas: the space that Export needs without reflinks
	// Findings has the differences, the most severe first.
	Findings []Finding
}

// Ready reports whether no finding is a Blocker.
func (r *CheckReport) Ready() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Blocker })
}

// A Finding is one difference between a cluster and Apache Kafka 4 on its export.
type Finding struct {
	Severity Severity
	About    string // "topic orders", "group billing", "users"
	Text     string // the difference
	Do       string // the action that removes it; "" if there is nothing to do
}

// Severity is the weight of a Finding.
type Severity string

// The severities, the most severe first.
const (
	Blocker Severity = "blocker" // Export or Kafka rejects it: to be changed before the export
	Change  Severity = "change"  // Kafka behaves differently: to be changed, or accepted
	Note    Severity = "note"    // information, such as the parts that are carried over
)

func (s Severity) rank() int { return slices.Index([]Severity{Blocker, Change, Note}, s) }

// Check reads the directory of a cluster and reports the differences that its users will notice on
// Apache Kafka 4 after Export, and the reasons for which Export or Kafka would reject it. It writes
// nothing. It holds a shared lock of each broker's directory for a moment, in which no process can
// open the directory. It reads the metadata, the committed offsets and the brokers' evidence of
// their records; it does not read records: CheckConfig.Damages has their faults. Settings of the
// process that serves the directory are in no file.
//
// Check judges as Export does. A damaged, missing or old replica is a Blocker only if no other
// replica in sync is whole. The figures of the report are of the replicas that Export takes.
//
// The directory may be open in another process; that is a Blocker in the report, because Export
// rejects it. Then the metadata may lack the last changes.
//
// Errors: ErrForeign if there is no cluster in Dir; *DamagedError if no copy of the metadata can be
// read; ErrUnsupported if a newer version wrote them; the context's error; and disk errors. Check
// blocks for reads of files. It may be called concurrently.
func Check(ctx context.Context, cfg CheckConfig) (*CheckReport, error) {
	report, err := runCheck(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("check of %s: %w", cfg.Dir, err)
	}
	return report, nil
}

func runCheck(ctx context.Context, cfg CheckConfig) (*CheckReport, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if there, err := hasCluster(cfg.FS, cfg.Dir); err != nil {
		return nil, err
	} else if !there {
		return nil, fmt.Errorf("%w: there is no cluster in %s", ErrForeign, cfg.Dir)
	}
	ck := &checking{fsys: vfs.ReadOnly(cfg.FS), dir: cfg.Dir, report: &CheckReport{}}
	if err := ck.readMetadata(); err != nil {
		return nil, err
	}
	if err := ck.inUse(cfg.FS); err != nil {
		return nil, err
	}
	if err := ck.readDamages(ctx, cfg.FS, cfg.Damages); err != nil {
		return nil, err
	}
	if err := ck.readOffsets(ctx); err != nil {
		return nil, err
	}
	ck.reportDamages()
	ck.topics()
	ck.replicas()
	ck.groupsAndShares()
	ck.access()
	ck.features()
	ck.report.Groups = len(ck.groups)
	slices.SortStableFunc(ck.report.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return ck.report, nil
}

// A checking is one call of Check.
type checking struct {
	fsys   vfs.FS // read-only
	dir    string
	report *CheckReport
	meta   *metadata
	there  []int32 // brokers with a directory

	badCopies map[int32]error           // damaged copies of the metadata, by broker
	damages   []*damagePlace            // given, and found by the brokers' evidence
	faulty    map[int32]map[string]bool // damaged replicas, by broker and name of the partition
	stale     map[int32]bool            // brokers whose directories are older copies, or another's

	groups map[string]*groupSeen
	// records of topics in segments whose newest record is older than Kafka's default retention
	expired map[string]int64
}

// groupSeen is a group in the offsets topic.
type groupSeen struct {
	committed map[record.TopicPartition]bool
	members   map[string]int32 // last session timeouts of members of the classic protocol, in ms, by client id
	share     bool
	streams   bool
}

func (ck *checking) find(s Severity, about, text, do string) {
	ck.report.Findings = append(ck.report.Findings, Finding{s, about, text, do})
}

// some names the first few of names.
func some(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// minIndexBytes is the size of an entry of a time index.
const minIndexBytes = 12

// neverFlush is the value of flush.messages that leaves writing back to the operating system.
const neverFlush = "9223372036854775807"

// topics checks the settings of topics and brokers.
func (ck *checking) topics() {
	broker := ck.meta.configs[metarecord.ResourceBroker]
	for _, name := range slices.Sorted(maps.Keys(broker)) {
		for _, k := range slices.Sorted(maps.Keys(broker[name])) {
			_, known := topic.LookupBrokerKey(k)
			if of := cmp.Or(name, "all brokers"); !known && !strings.HasSuffix(k, ".replication.throttled.rate") {
				ck.find(Blocker, "broker settings of "+of, k+" is no setting of Kafka", "remove it")
			}
		}
	}
	var synced, one []string
	for _, t := range ck.meta.sortedTopics() {
		config := ck.meta.configs[metarecord.ResourceTopic][t.name]
		if n, err := strconv.Atoi(cmp.Or(config["segment.index.bytes"], broker[""]["log.index.size.max.bytes"])); err == nil && n < minIndexBytes {
			ck.find(Blocker, "topic "+t.name, fmt.Sprintf("segment.index.bytes=%d has no room for an entry of the time index: Kafka does not start with it", n),
				"strata topics alter "+t.name+" --set segment.index.bytes=10485760")
		}
		for _, k := range slices.Sorted(maps.Keys(config)) {
			if _, known := topic.LookupKey(k); !known {
				ck.find(Blocker, "topic "+t.name, k+" is no setting of Kafka", "strata topics alter "+t.name+" --unset "+k)
			}
		}
		if topic.IsInternal(t.name) {
			continue
		}
		if n := ck.expired[t.name]; n > 0 && ck.retainedByDefault(config) {
			ck.find(Change, "topic "+t.name, fmt.Sprintf("%d records are older than 7 days, and the topic has no retention of its own: Kafka deletes them soon after its start", n),
				"strata topics alter "+t.name+" --set retention.ms=-1, or another time")
		}
		messages, own := config["flush.messages"]
		if _, ms := config["flush.ms"]; !own && !ms {
			messages, own = broker[""]["log.flush.interval.messages"], false
			if _, ms := broker[""]["log.flush.interval.ms"]; ms && messages == "" {
				messages = neverFlush
			}
		}
		n, err := strconv.ParseInt(messages, 10, 64)
		switch {
		case messages == "" && config["flush.ms"] == "":
			synced = append(synced, t.name)
		case err == nil && n == 1:
			one = append(one, t.name)
		case err == nil && messages != neverFlush:
			of := "flush.messages=" + messages
			ck.find(Change, "topic "+t.name, of+" means in Strata that each acknowledged record is on stable storage; Kafka acknowledges before it flushes every "+messages+" records", "rely on replicas, or set flush.messages=1")
		}
	}
	if len(synced) > 0 {
		ck.find(Change, "acknowledged records of "+some(synced),
			"in Strata an acknowledged record is on stable storage (fsync); in Kafka it is in the memory of the replicas in sync, and a power cut of all of them loses it",
			"at least 3 brokers that do not fail together: strata topics reassign --replicas 3, min.insync.replicas=2 and acks=all; or flush.messages=1, which is slow in Kafka")
	}
	if len(one) > 0 {
		ck.find(Change, "flush.messages=1 of "+some(one), "Kafka flushes on the leader before each acknowledgement, one batch at a time, which is slow", "strata topics alter TOPIC --set flush.messages="+neverFlush+" if replicas are enough")
	}
	ck.find(Note, "settings of the process", "options of strata.Config and flags of strata serve are in no file: defaults of topics, bounds of sessions, expiry", "set them in server.properties")
}

// retainedByDefault reports whether a default of server.properties decides how long Kafka keeps the
// records of a topic with these settings.
func (ck *checking) retainedByDefault(config map[string]string) bool {
	broker := ck.meta.configs[metarecord.ResourceBroker][""]
	if policy := cmp.Or(config["cleanup.policy"], broker["log.cleanup.policy"]); policy == "compact" {
		return false
	}
	_, own := config["retention.ms"]
	_, all := broker["log.retention.ms"]
	return !own && !all
}

// replicas checks replication, and the space that the copy needs.
func (ck *checking) replicas() {
	var single, internal, none []string
	for _, t := range ck.meta.sortedTopics() {
		least := -1
		for n, p := range t.partitions {
			if len(p.isr)+len(p.eligible) == 0 {
				none = append(none, fmt.Sprintf("%s-%d", t.name, n))
			}
			if least < 0 || len(p.replicas) < least {
				least = len(p.replicas)
			}
		}
		switch {
		case least != 1:
		case topic.IsInternal(t.name):
			internal = append(internal, t.name)
		default:
			single = append(single, t.name)
		}
	}
	slices.Sort(none)
	if len(none) > 0 {
		ck.find(Blocker, "partitions "+some(none), "they have no replica in sync", "start the cluster and the missing brokers, and wait for a leader")
	}
	if len(single) > 0 {
		ck.find(Change, "topics with one replica: "+some(single), "they are lost with their broker", "after the move: strata topics reassign --replicas 3")
	}
	if len(internal) > 0 {
		ck.find(Change, "internal topics with one replica: "+some(internal), "committed offsets and transactions are lost with their broker", "after the move: strata topics reassign --replicas 3 --internal")
	}
	if n := len(ck.report.Brokers); n > 1 {
		ck.find(Note, "brokers", fmt.Sprintf("%d brokers become %d brokers of Kafka with the same ids", n, n), "start all of them; log.dirs of broker N is KAFKA_LOG_DIR/broker-N")
	}
}

// boundedGroupKeys are the lower bounds of Kafka's server.properties for settings of groups, in ms.
var boundedGroupKeys = map[string]int64{
	"consumer.session.timeout.ms": 45_000, "consumer.heartbeat.interval.ms": 5_000,
	"share.session.timeout.ms": 45_000, "share.heartbeat.interval.ms": 5_000,
	"streams.session.timeout.ms": 45_000, "streams.heartbeat.interval.ms": 5_000,
}

const minClassicSession = 6_000 // Kafka's group.min.session.timeout.ms

// groupsAndShares checks groups.
func (ck *checking) groupsAndShares() {
	configs := ck.meta.configs[metarecord.ResourceGroup]
	for _, id := range slices.Sorted(maps.Keys(configs)) {
		for _, k := range slices.Sorted(maps.Keys(configs[id])) {
			least, bounded := boundedGroupKeys[k]
			if n, err := strconv.ParseInt(configs[id][k], 10, 64); bounded && err == nil && n < least {
				ck.find(Change, "group "+id, fmt.Sprintf("%s=%d is below Kafka's bound of %d", k, n, least),
					fmt.Sprintf("strata groups alter %s --set %s=%d, or lower group.%s in server.properties", id, k, least, strings.Replace(k, ".", ".min.", 1)))
			}
		}
	}
	shares, idle := []string{}, 0
	for _, id := range slices.Sorted(maps.Keys(ck.groups)) {
		g := ck.groups[id]
		for _, client := range slices.Sorted(maps.Keys(g.members)) {
			if ms := g.members[client]; ms < minClassicSession {
				ck.find(Change, "group "+id, fmt.Sprintf("the last session timeout of client %q is %d ms; Kafka rejects members below %d ms", client, ms, minClassicSession),
					"raise SessionTimeout of the consumer, or lower group.min.session.timeout.ms in server.properties")
			}
		}
		if g.share {
			shares = append(shares, id)
		}
		if len(g.committed) > 0 {
			idle++
		}
	}
	if idle > 0 {
		ck.find(Change, "committed offsets", fmt.Sprintf("those of %d groups are carried; Strata keeps them, Kafka deletes those of a group that had no members for 7 days", idle), "offsets.retention.minutes in server.properties, if groups pause for longer")
	}
	if len(shares) > 0 {
		ck.find(Change, "share groups "+some(shares), "their state is carried; Kafka rejects their members until share.version is 1", "after the move: kafka-features.sh upgrade --release-version 4.3")
	}
}

// access checks users, access control entries, quotas and tokens.
func (ck *checking) access() {
	m := ck.meta
	if n := len(m.users); n > 0 {
		ck.find(Change, "users", fmt.Sprintf("%d SCRAM credentials are carried; Kafka accepts no login until a listener has SASL", n), "sasl.enabled.mechanisms and a SASL listener in server.properties")
	}
	if n := len(m.acls); n > 0 {
		ck.find(Change, "access control entries", fmt.Sprintf("%d are carried; Kafka ignores them without an authorizer", n), "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer in server.properties, and super.users with the principal of the brokers and controllers: without it several controllers elect no leader")
	}
	if n := len(m.quotas); n > 0 {
		ck.find(Note, "client quotas", fmt.Sprintf("%d are carried", n), "")
	}
	if n := len(m.tokens); n > 0 {
		ck.find(Change, "delegation tokens", fmt.Sprintf("%d are carried; they are valid only with the same secret", n), "delegation.token.secret.key in server.properties: the content of the file of strata serve --token-secret")
	}
	var internal []string
	for _, t := range m.sortedTopics() {
		if topic.IsInternal(t.name) {
			internal = append(internal, fmt.Sprintf("%s (%d partitions)", t.name, len(t.partitions)))
		}
	}
	if len(internal) > 0 {
		ck.find(Note, "internal topics", "they are carried with their number of partitions: "+strings.Join(internal, ", "), "")
	}
}

// features checks the finalized features of the copy.
func (ck *checking) features() {
	text := "the export has metadata.version 4.0"
	if level := ck.meta.features["transaction.version"]; level > 0 {
		text += fmt.Sprintf(" and transaction.version %d", level)
	} else {
		text += " and no transaction.version: producers use the older transaction protocol, which is slower"
	}
	ck.find(Change, "features", text, "after the move: kafka-features.sh upgrade --release-version 4.3")
}
