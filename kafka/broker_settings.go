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
		{"advertised.listeners", topic.TypeList, listener, "", "Addresses that clients connect to."},
		{"auto.create.topics.enable", topic.TypeBoolean, strconv.FormatBool(!c.s.cfg.NoAutoCreate), "true", "Whether a client's first request for a missing topic creates it."},
		{"broker.id", topic.TypeInt, id, "-1", "Id of this broker."},
		{"broker.rack", topic.TypeString, c.rack(), "", "Rack of this broker."},
		{"delete.topic.enable", topic.TypeBoolean, "true", "true", "Whether topics can be deleted."},
		{"listeners", topic.TypeList, listener, "PLAINTEXT://:9092", "Addresses that this broker listens on."},
		{"log.dirs", topic.TypeList, c.s.cluster.LogDir(c.broker), "", "Directory of this broker's partitions."},
		{"node.id", topic.TypeInt, id, "", "Id of this broker and controller."},
		{"process.roles", topic.TypeList, "broker,controller", "", "Roles of this process: broker and controller."},
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
		{"auto.leader.rebalance.enable", topic.TypeBoolean, balance, "true", "Whether partitions return to their preferred leaders."},
		{"default.replication.factor", topic.TypeInt, strconv.Itoa(cfg.Defaults.ReplicationFactor), "1", "Replicas of a topic that is created without a replication factor."},
		{"leader.imbalance.check.interval.seconds", topic.TypeLong, seconds, "300", "Interval at which partitions return to their preferred leaders."},
		{"log.cleaner.backoff.ms", topic.TypeLong, millis(cfg.CompactionInterval), "15000", "Interval at which compacted topics are checked."},
		{"log.flush.scheduler.interval.ms", topic.TypeLong, maxLong, maxLong, "Default of log.flush.interval.ms: the value means never."},
		{"log.retention.hours", topic.TypeInt, "168", "168", "How long records are kept if log.retention.ms is not set."},
		{"log.roll.hours", topic.TypeInt, "168", "168", "Age at which a segment is closed if log.roll.ms is not set."},
		{"log.roll.jitter.hours", topic.TypeInt, "0", "0", "Largest random reduction of log.roll.hours if log.roll.jitter.ms is not set."},
		{"log.retention.check.interval.ms", topic.TypeLong, millis(cfg.RetentionCheckInterval), "300000", "Interval at which segments are checked against their retention."},
		{"num.partitions", topic.TypeInt, strconv.Itoa(cfg.Defaults.Partitions), "1", "Partitions of a topic that is created without a number of partitions."},
		{"replication.quota.window.num", topic.TypeInt, "11", "11", "Number of time windows in the average rate of throttled replicas."},
		{"replication.quota.window.size.seconds", topic.TypeInt, "1", "1", "Length of a time window in the average rate of throttled replicas."},
		{"replica.selector.class", topic.TypeString, selector, "", "Class that selects the replica for a client with a rack."},
		{"producer.id.expiration.ms", topic.TypeInt, millis(expiration), "86400000", "Time after its last batch for which the state of an idempotent producer is kept."},
	}
}

func (c *call) limitSettings() []setting {
	l := c.s.limits
	return []setting{
		{"connections.max.idle.ms", topic.TypeLong, millis(l.Idle), "600000", "Time without a request after which a connection is closed."},
		{"fetch.max.bytes", topic.TypeInt, strconv.Itoa(maxFetchBytes), strconv.Itoa(maxFetchBytes), "Largest response to a fetch; the first batch may exceed it."},
		{"max.connections", topic.TypeInt, strconv.Itoa(l.Connections), "10000", "Most connections at a time."},
		{"max.incremental.fetch.session.cache.slots", topic.TypeInt, strconv.Itoa(maxFetchSessions), strconv.Itoa(maxFetchSessions), "Most fetch sessions at a time."},
		{"max.request.partition.size.limit", topic.TypeInt, strconv.Itoa(maxDescribedPartitions), strconv.Itoa(maxDescribedPartitions), "Most partitions in one response to DescribeTopicPartitions."},
		{"queued.max.request.bytes", topic.TypeLong, strconv.Itoa(l.InFlightBytes), strconv.Itoa(256 << 20), "Most bytes of requests and responses of all connections together."},
		{"socket.request.max.bytes", topic.TypeInt, strconv.Itoa(l.RequestBytes), "104857600", "Largest request; other requests than produce have a lower bound too."},
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
		{"group.consumer.assignment.interval.ms", topic.TypeInt, millis(g.ConsumerAssignmentInterval), "1000", "Shortest time between two target assignments of a consumer group."},
		{"group.consumer.heartbeat.interval.ms", topic.TypeInt, millis(g.ConsumerHeartbeatInterval), "5000", "Interval of heartbeats of members of consumer groups."},
		{"group.consumer.max.assignment.interval.ms", topic.TypeInt, millis(g.ConsumerMaxAssignmentInterval), "15000", "Upper bound of a group's consumer.assignment.interval.ms."},
		{"group.consumer.max.heartbeat.interval.ms", topic.TypeInt, millis(g.ConsumerMaxHeartbeatInterval), "15000", "Upper bound of a group's consumer.heartbeat.interval.ms."},
		{"group.consumer.max.session.timeout.ms", topic.TypeInt, millis(g.ConsumerMaxSessionTimeout), "60000", "Upper bound of a group's consumer.session.timeout.ms."},
		{"group.consumer.max.size", topic.TypeInt, consumers, "2147483647", "Maximum number of members of a consumer group."},
		{"group.consumer.migration.policy", topic.TypeString, g.ConsumerMigration.String(), "bidirectional", "Protocol changes that a group with members may make: disabled, downgrade (to classic), upgrade (to consumer), bidirectional."},
		{"group.consumer.min.heartbeat.interval.ms", topic.TypeInt, millis(g.ConsumerMinHeartbeatInterval), "5000", "Lower bound of a group's consumer.heartbeat.interval.ms."},
		{"group.consumer.min.session.timeout.ms", topic.TypeInt, millis(g.ConsumerMinSessionTimeout), "45000", "Lower bound of a group's consumer.session.timeout.ms."},
		{"group.consumer.session.timeout.ms", topic.TypeInt, millis(g.ConsumerSessionTimeout), "45000", "Time without a heartbeat after which a member of a consumer group is removed."},
		{"group.initial.rebalance.delay.ms", topic.TypeInt, millis(g.InitialRebalanceDelay), "0", "Time that a new classic group waits for more members before its first rebalance."},
		{"group.max.session.timeout.ms", topic.TypeInt, millis(g.MaxSessionTimeout), "1800000", "Longest session timeout of a member of a classic group."},
		{"group.max.size", topic.TypeInt, size, "2147483647", "Maximum number of members of a classic group."},
		{"group.min.session.timeout.ms", topic.TypeInt, millis(g.MinSessionTimeout), "6000", "Shortest session timeout of a member of a classic group."},
		{"offset.metadata.max.bytes", topic.TypeInt, strconv.Itoa(g.OffsetMetadataMax), "4096", "Longest metadata of a committed offset."},
		{"offsets.retention.check.interval.ms", topic.TypeLong, millis(g.ExpiryInterval), "600000", "Interval at which offsets are checked against offsets.retention.minutes."},
		{"offsets.retention.minutes", topic.TypeInt, retention, "-1", "Time for which offsets of a group without members are kept; -1: for ever."},
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
		{"group.streams.assignment.interval.ms", topic.TypeInt, millis(g.AssignmentInterval), "1000", "Shortest time between two target assignments of a streams group."},
		{"group.streams.heartbeat.interval.ms", topic.TypeInt, millis(g.HeartbeatInterval), "5000", "Interval of heartbeats of members of streams groups."},
		{"group.streams.initial.rebalance.delay.ms", topic.TypeInt, millis(g.InitialRebalanceDelay), "3000", "Time that a streams group without members waits for more members after the first one."},
		{"group.streams.max.assignment.interval.ms", topic.TypeInt, millis(g.MaxAssignmentInterval), "15000", "Upper bound of a group's streams.assignment.interval.ms."},
		{"group.streams.max.heartbeat.interval.ms", topic.TypeInt, millis(g.MaxHeartbeatInterval), "15000", "Upper bound of a group's streams.heartbeat.interval.ms."},
		{"group.streams.max.session.timeout.ms", topic.TypeInt, millis(g.MaxSessionTimeout), "60000", "Upper bound of a group's streams.session.timeout.ms."},
		{"group.streams.max.size", topic.TypeInt, size, "2147483647", "Maximum number of members of a streams group."},
		{"group.streams.max.standby.replicas", topic.TypeInt, strconv.Itoa(g.MaxStandbyReplicas), "2", "Upper bound of a group's streams.num.standby.replicas."},
		{"group.streams.min.assignment.interval.ms", topic.TypeInt, millis(g.MinAssignmentInterval), "0", "Lower bound of a group's streams.assignment.interval.ms."},
		{"group.streams.min.heartbeat.interval.ms", topic.TypeInt, millis(g.MinHeartbeatInterval), "5000", "Lower bound of a group's streams.heartbeat.interval.ms."},
		{"group.streams.min.session.timeout.ms", topic.TypeInt, millis(g.MinSessionTimeout), "45000", "Lower bound of a group's streams.session.timeout.ms."},
		{"group.streams.num.standby.replicas", topic.TypeInt, strconv.Itoa(g.StandbyReplicas), "0", "Number of other processes that keep a copy of the state of each task."},
		{"group.streams.session.timeout.ms", topic.TypeInt, millis(g.SessionTimeout), "45000", "Time without a heartbeat after which a member of a streams group is removed."},
	}
}

func millis(d time.Duration) string {
	if d == log.Unlimited {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
