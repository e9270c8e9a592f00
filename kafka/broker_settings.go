package kafka

import (
	"slices"
	"strconv"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

const maxLong = "9223372036854775807"

// setting is a broker setting that cannot be changed while the broker runs, or a key of a
// client-metrics resource. def is the default; empty means none. value is empty for a key.
type setting struct {
	name       string
	kind       topic.ValueType
	value, def string
	doc        string
}

// staticEntries returns the settings of the broker that are fixed when it starts, under Kafka's
// names. Settings of Kafka that have no meaning here are left out.
func (c *call) staticEntries() []configEntry {
	id := strconv.Itoa(int(c.broker))
	listener := c.s.endpoints(c.broker)
	settings := []setting{
		{"advertised.listeners", topic.TypeList, listener, "", "Where clients find this broker."},
		{"auto.create.topics.enable", topic.TypeBoolean, strconv.FormatBool(!c.s.cfg.NoAutoCreate), "true", "Whether a client's first request about a missing topic creates it."},
		{"broker.id", topic.TypeInt, id, "-1", "The id of this broker."},
		{"broker.rack", topic.TypeString, c.rack(), "", "The rack that this broker is in."},
		{"delete.topic.enable", topic.TypeBoolean, "true", "true", "Whether topics can be deleted."},
		{"listeners", topic.TypeList, listener, "PLAINTEXT://:9092", "Where this broker is served."},
		{"log.dirs", topic.TypeList, c.s.cluster.LogDir(c.broker), "", "The directory of this broker's partitions."},
		{"node.id", topic.TypeInt, id, "", "The id of this broker and controller."},
		{"process.roles", topic.TypeList, "broker,controller", "", "The roles of this process."},
	}
	settings = append(settings, c.clusterSettings()...)
	settings = append(settings, c.limitSettings()...)
	settings = append(settings, groupSettings(c.s.cluster.GroupConfig())...)
	settings = append(settings, shareSettings(c.s.cluster.GroupConfig())...)
	settings = append(settings, streamsSettings(c.s.cluster.GroupConfig().Streams)...)
	settings = append(settings, transactionSettings(c.s.cluster.TransactionCoordinator().Config())...)
	settings = slices.DeleteFunc(settings, func(s setting) bool { return s.value == "" && s.def == "" })
	entries := make([]configEntry, len(settings))
	for i, s := range settings {
		e := configEntry{readOnly: true, kind: s.kind, doc: s.doc}
		if s.value != s.def {
			e.layers = append(e.layers, configLayer{s.name, s.value, sourceStatic})
		}
		if s.def != "" {
			e.layers = append(e.layers, configLayer{s.name, s.def, sourceDefault})
		}
		e.configLayer = e.layers[0]
		entries[i] = e
	}
	return entries
}

// rack returns the rack of the broker that serves the call, empty if it has none or does not
// serve.
func (c *call) rack() string {
	known, _ := c.s.cluster.Metadata(c.ctx, noTopic) // without brokers if the cluster is closing
	for _, b := range known.Brokers {
		if b.ID == c.broker {
			return b.Rack
		}
	}
	return ""
}

func (c *call) clusterSettings() []setting {
	cfg := c.s.cluster.ClusterConfig()
	expiration := cfg.ProducerIDExpiration
	if expiration == 0 {
		expiration = 24 * time.Hour
	}
	balance, seconds := "true", "300"
	if cfg.LeaderBalanceInterval < 0 {
		balance = "false"
	} else if cfg.LeaderBalanceInterval > 0 {
		seconds = strconv.FormatInt(int64(cfg.LeaderBalanceInterval/time.Second), 10)
	}
	selector := "" // Kafka's default is none, which means LeaderSelector
	if cfg.ReplicaSelector != replication.LeaderSelector {
		selector = cfg.ReplicaSelector.Class()
	}
	return []setting{
		{"auto.leader.rebalance.enable", topic.TypeBoolean, balance, "true", "Whether partitions go back to their preferred leaders."},
		{"default.replication.factor", topic.TypeInt, strconv.Itoa(cfg.Defaults.ReplicationFactor), "1", "Replicas of topics that are created without a number."},
		{"leader.imbalance.check.interval.seconds", topic.TypeLong, seconds, "300", "After what time partitions go back to their preferred leaders."},
		{"log.cleaner.backoff.ms", topic.TypeLong, millis(cfg.CompactionInterval), "15000", "How often compacted topics are looked at."},
		{"log.flush.scheduler.interval.ms", topic.TypeLong, maxLong, maxLong, "How often it is looked for records that log.flush.interval.ms wants forced to disk, where that is not set: never."},
		{"log.retention.hours", topic.TypeInt, "168", "168", "How long records are kept, where log.retention.ms is not set."},
		{"log.roll.hours", topic.TypeInt, "168", "168", "When a segment is old enough for a new one, where log.roll.ms is not set."},
		{"log.roll.jitter.hours", topic.TypeInt, "0", "0", "By how much that varies, where log.roll.jitter.ms is not set."},
		{"log.retention.check.interval.ms", topic.TypeLong, millis(cfg.RetentionCheckInterval), "300000", "How often segments that have outlived their retention are looked for."},
		{"num.partitions", topic.TypeInt, strconv.Itoa(cfg.Defaults.Partitions), "1", "Partitions of topics that are created without a number."},
		{"replication.quota.window.num", topic.TypeInt, "11", "11", "Over how many windows of time the rates of throttled replicas are kept."},
		{"replication.quota.window.size.seconds", topic.TypeInt, "1", "1", "How long each of them is."},
		{"replica.selector.class", topic.TypeString, selector, "", "Which replicas serve clients that tell their rack."},
		{"producer.id.expiration.ms", topic.TypeInt, millis(expiration), "86400000", "How long the state of an idempotent producer is kept after its last batch."},
	}
}

func (c *call) limitSettings() []setting {
	l := c.s.limits
	return []setting{
		{"connections.max.idle.ms", topic.TypeLong, millis(l.Idle), "600000", "How long a connection may be without a request."},
		{"fetch.max.bytes", topic.TypeInt, strconv.Itoa(maxFetchBytes), strconv.Itoa(maxFetchBytes), "The largest answer to a fetch; the first batch may exceed it."},
		{"max.connections", topic.TypeInt, strconv.Itoa(l.Connections), "10000", "Connections at a time."},
		{"max.incremental.fetch.session.cache.slots", topic.TypeInt, strconv.Itoa(maxFetchSessions), strconv.Itoa(maxFetchSessions), "Fetch sessions that are remembered."},
		{"max.request.partition.size.limit", topic.TypeInt, strconv.Itoa(maxDescribedPartitions), strconv.Itoa(maxDescribedPartitions), "Partitions in one page of a description of topics."},
		{"queued.max.request.bytes", topic.TypeLong, strconv.Itoa(l.InFlightBytes), strconv.Itoa(256 << 20), "Bytes of requests and answers that all connections together may hold."},
		{"socket.request.max.bytes", topic.TypeInt, strconv.Itoa(l.RequestBytes), "104857600", "The largest produce request."},
	}
}

func groupSettings(g group.Config) []setting {
	size, retention := "2147483647", "-1"
	if g.MaxSize > 0 {
		size = strconv.Itoa(g.MaxSize)
	}
	if g.OffsetsRetention > 0 {
		retention = strconv.FormatInt(int64(g.OffsetsRetention/time.Minute), 10)
	}
	consumers := "2147483647"
	if g.ConsumerMaxSize > 0 {
		consumers = strconv.Itoa(g.ConsumerMaxSize)
	}
	return []setting{
		{"group.consumer.assignment.interval.ms", topic.TypeInt, millis(g.ConsumerAssignmentInterval), "1000", "How long after a target assignment the next one is computed at the earliest."},
		{"group.consumer.heartbeat.interval.ms", topic.TypeInt, millis(g.ConsumerHeartbeatInterval), "5000", "The time between two heartbeats of a member of a consumer group."},
		{"group.consumer.max.assignment.interval.ms", topic.TypeInt, millis(g.ConsumerMaxAssignmentInterval), "15000", "The most that a group's consumer.assignment.interval.ms may be."},
		{"group.consumer.max.heartbeat.interval.ms", topic.TypeInt, millis(g.ConsumerMaxHeartbeatInterval), "15000", "The most that a group's consumer.heartbeat.interval.ms may be."},
		{"group.consumer.max.session.timeout.ms", topic.TypeInt, millis(g.ConsumerMaxSessionTimeout), "60000", "The most that a group's consumer.session.timeout.ms may be."},
		{"group.consumer.max.size", topic.TypeInt, consumers, "2147483647", "The most members a consumer group can have."},
		{"group.consumer.migration.policy", topic.TypeString, g.ConsumerMigration.String(), "bidirectional", "Whether groups with members go over to the other protocol."},
		{"group.consumer.min.heartbeat.interval.ms", topic.TypeInt, millis(g.ConsumerMinHeartbeatInterval), "5000", "The least that a group's consumer.heartbeat.interval.ms may be."},
		{"group.consumer.min.session.timeout.ms", topic.TypeInt, millis(g.ConsumerMinSessionTimeout), "45000", "The least that a group's consumer.session.timeout.ms may be."},
		{"group.consumer.session.timeout.ms", topic.TypeInt, millis(g.ConsumerSessionTimeout), "45000", "How long members of consumer groups live without a heartbeat."},
		{"group.initial.rebalance.delay.ms", topic.TypeInt, millis(g.InitialRebalanceDelay), "0", "How long a new group waits for more members."},
		{"group.max.session.timeout.ms", topic.TypeInt, millis(g.MaxSessionTimeout), "1800000", "The longest session timeout of a member."},
		{"group.max.size", topic.TypeInt, size, "2147483647", "The most members a group can have."},
		{"group.min.session.timeout.ms", topic.TypeInt, millis(g.MinSessionTimeout), "6000", "The shortest session timeout of a member."},
		{"offset.metadata.max.bytes", topic.TypeInt, strconv.Itoa(g.OffsetMetadataMax), "4096", "The longest metadata of a committed offset."},
		{"offsets.retention.check.interval.ms", topic.TypeLong, millis(g.ExpiryInterval), "600000", "How often expired offsets are looked for."},
		{"offsets.retention.minutes", topic.TypeInt, retention, "-1", "How long offsets of a group without members are kept; -1: for ever."},
		{"offsets.topic.replication.factor", typeShort, replicas(g.OffsetsReplicas), "3", "Replicas of the topic of committed offsets; fewer if there are fewer brokers."},
		{"offsets.topic.num.partitions", topic.TypeInt, strconv.Itoa(int(g.OffsetsPartitions)), "50", "Partitions of the topic of committed offsets."},
	}
}

func shareSettings(g group.Config) []setting {
	r := g.ShareRecords
	return []setting{
		{"group.share.assignment.interval.ms", topic.TypeInt, millis(g.ShareAssignmentInterval), "1000", "Shortest time between two target assignments of a share group."},
		{"group.share.delivery.count.limit", topic.TypeInt, strconv.Itoa(r.MaxDeliveryCount), "5", "Deliveries of a record before it is archived."},
		{"group.share.heartbeat.interval.ms", topic.TypeInt, millis(g.ShareHeartbeatInterval), "5000", "Interval of heartbeats of members of share groups."},
		{"group.share.max.assignment.interval.ms", topic.TypeInt, millis(g.ShareMaxAssignmentInterval), "15000", "Upper bound of a group's share.assignment.interval.ms."},
		{"group.share.max.heartbeat.interval.ms", topic.TypeInt, millis(g.ShareMaxHeartbeatInterval), "15000", "Upper bound of a group's share.heartbeat.interval.ms."},
		{"group.share.max.session.timeout.ms", topic.TypeInt, millis(g.ShareMaxSessionTimeout), "60000", "Upper bound of a group's share.session.timeout.ms."},
		{"group.share.max.size", topic.TypeInt, strconv.Itoa(g.ShareMaxSize), "200", "Maximum number of members of a share group."},
		{"group.share.min.heartbeat.interval.ms", topic.TypeInt, millis(g.ShareMinHeartbeatInterval), "5000", "Lower bound of a group's share.heartbeat.interval.ms."},
		{"group.share.min.session.timeout.ms", topic.TypeInt, millis(g.ShareMinSessionTimeout), "45000", "Lower bound of a group's share.session.timeout.ms."},
		{"group.share.partition.max.record.locks", topic.TypeInt, strconv.Itoa(r.MaxInFlight), "2000", "Records of a partition that a share group has in flight at a time."},
		{"group.share.record.lock.duration.ms", topic.TypeInt, millis(r.LockDuration), "30000", "Time that a member has for a record before it is delivered again."},
		{"group.share.session.timeout.ms", topic.TypeInt, millis(g.ShareSessionTimeout), "45000", "Time without a heartbeat after which a member of a share group is removed."},
	}
}

func transactionSettings(t transaction.Config) []setting {
	inSync, expiration := "2", "-1"
	if t.Expiration > 0 {
		expiration = millis(t.Expiration)
	}
	if t.Topic.MinInSync > 0 {
		inSync = strconv.Itoa(t.Topic.MinInSync)
	}
	return []setting{
		{"transaction.max.timeout.ms", topic.TypeInt, millis(t.MaxTimeout), "900000", "Longest transaction timeout of a producer."},
		{"transaction.state.log.min.isr", topic.TypeInt, inSync, "2", "In-sync replicas that a change of a transaction's state needs; fewer if there are fewer brokers."},
		{"transaction.state.log.num.partitions", topic.TypeInt, strconv.Itoa(int(t.Topic.Partitions)), "50", "Partitions of the topic of transactions."},
		{"transaction.state.log.replication.factor", typeShort, replicas(t.Topic.Replicas), "3", "Replicas of the topic of transactions; fewer if there are fewer brokers."},
		{"transactional.id.expiration.ms", topic.TypeInt, expiration, "604800000", "Time after its last transaction at which a transactional id expires."},
	}
}

// replicas returns the text of a replication factor. 0 means 3, or the number of brokers if that
// is lower.
func replicas(n int) string {
	if n == 0 {
		n = 3
	}
	return strconv.Itoa(n)
}

func streamsSettings(g group.StreamsConfig) []setting {
	size := "2147483647"
	if g.MaxSize > 0 {
		size = strconv.Itoa(g.MaxSize)
	}
	return []setting{
		{"group.streams.assignment.interval.ms", topic.TypeInt, millis(g.AssignmentInterval), "1000", "How long after a target assignment of a streams group the next one is computed at the earliest."},
		{"group.streams.heartbeat.interval.ms", topic.TypeInt, millis(g.HeartbeatInterval), "5000", "The time between two heartbeats of a member of a streams group."},
		{"group.streams.initial.rebalance.delay.ms", topic.TypeInt, millis(g.InitialRebalanceDelay), "3000", "How long a streams group that had no members waits for more of them."},
		{"group.streams.max.assignment.interval.ms", topic.TypeInt, millis(g.MaxAssignmentInterval), "15000", "The most that a group's streams.assignment.interval.ms may be."},
		{"group.streams.max.heartbeat.interval.ms", topic.TypeInt, millis(g.MaxHeartbeatInterval), "15000", "The most that a group's streams.heartbeat.interval.ms may be."},
		{"group.streams.max.session.timeout.ms", topic.TypeInt, millis(g.MaxSessionTimeout), "60000", "The most that a group's streams.session.timeout.ms may be."},
		{"group.streams.max.size", topic.TypeInt, size, "2147483647", "The most members a streams group can have."},
		{"group.streams.max.standby.replicas", topic.TypeInt, strconv.Itoa(g.MaxStandbyReplicas), "2", "The most that a group's streams.num.standby.replicas may be."},
		{"group.streams.min.assignment.interval.ms", topic.TypeInt, millis(g.MinAssignmentInterval), "0", "The least that a group's streams.assignment.interval.ms may be."},
		{"group.streams.min.heartbeat.interval.ms", topic.TypeInt, millis(g.MinHeartbeatInterval), "5000", "The least that a group's streams.heartbeat.interval.ms may be."},
		{"group.streams.min.session.timeout.ms", topic.TypeInt, millis(g.MinSessionTimeout), "45000", "The least that a group's streams.session.timeout.ms may be."},
		{"group.streams.num.standby.replicas", topic.TypeInt, strconv.Itoa(g.StandbyReplicas), "0", "How many other processes keep a copy of the state of each task."},
		{"group.streams.session.timeout.ms", topic.TypeInt, millis(g.SessionTimeout), "45000", "How long members of streams groups live without a heartbeat."},
	}
}

func millis(d time.Duration) string {
	if d == log.Unlimited {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
