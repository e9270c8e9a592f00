package interop

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// A gen fills in requests. Its choices depend only on rng and on the script's model.
type gen struct {
	rng *rand.Rand
	m   *model
	api int16

	// The subject of the fields that belong together.
	topic *topicModel
	group *groupModel
	txn   *txnModel
	kind  int64 // of the resource whose configuration it is
}

func (g *gen) one(n int) bool { return g.rng.IntN(n) == 0 }

func pick[T any](g *gen, of ...T) T { return of[g.rng.IntN(len(of))] }

// wrong reports whether to choose a value that does not fit the rest of the request.
func (g *gen) wrong() bool { return g.one(12) }

// fill fills in a struct: each field by its name and type.
func (g *gen) fill(v reflect.Value) {
	t := v.Type()
	if _, of := t.FieldByName("Topic"); of {
		g.topic = pick(g, g.m.topics...)
	} else if _, of := t.FieldByName("TopicID"); of {
		g.topic = pick(g, g.m.topics...)
	}
	for i := range t.NumField() {
		name := t.Field(i).Name
		if name == "Version" || name == "UnknownTags" || name == "ReplicaState" {
			continue
		}
		g.field(t.Name(), name, v.Field(i))
	}
}

// optional has the fields that are mostly null.
var optional = map[string]bool{"InstanceID": true, "Reason": true, "ClusterID": true, "RackID": true, "ServerAssignor": true, "SubscribedTopicRegex": true,
	"Cursor": true, "OwnerPrincipalType": true, "OwnerPrincipalName": true, "TransactionalIDPattern": true, "Match": true}

func (g *gen) field(in, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		g.fill(v)
	case reflect.Pointer:
		null := g.one(8)
		if optional[name] {
			null = !g.one(4)
		}
		if name == "TransactionalID" && g.api == 0 {
			null = g.txn.id == ""
		}
		if null {
			v.SetZero()
			return
		}
		p := reflect.New(v.Type().Elem())
		g.field(in, name, p.Elem())
		v.Set(p)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(g.bytes(in, name))
			return
		}
		g.slice(in, name, v)
	case reflect.Array:
		v.Set(reflect.ValueOf(g.uuid(name)).Convert(v.Type()))
	case reflect.String:
		v.SetString(g.text(in, name))
	case reflect.Bool:
		v.SetBool(g.flag(name))
	case reflect.Float64:
		v.SetFloat(pick(g, 1, 1.5, 0, -1, 1e6, 1e12, math.MaxFloat64, math.NaN(), 100))
	case reflect.Uint16:
		v.SetUint(uint64(g.rng.IntN(1 << 16)))
	default:
		bits := v.Type().Bits()
		n := g.number(in, name)
		if lowest, highest := int64(-1)<<(bits-1), int64(1)<<(bits-1)-1; n < lowest || n > highest {
			n = highest
		}
		v.SetInt(n)
	}
}

func (g *gen) slice(in, name string, v reflect.Value) {
	n := pick(g, 1, 1, 1, 1, 1, 1, 2, 2, 3, 0)
	if v.Type().Elem().Kind() != reflect.Struct && g.one(15) {
		v.SetZero()
		return
	}
	if name == "Configs" || name == "Ops" {
		n = pick(g, 1, 1, 1, 2, 2, 0)
	}
	if name == "ReplicaAssignment" || name == "Assignment" || name == "ForgottenTopics" || name == "ForgottenTopicsData" || name == "AcknowledgementBatches" {
		n = pick(g, 0, 0, 0, 1, 1, 2)
	}
	if (name == "Topics" && (g.api == 61 || g.api == 35 || g.api == 3 || g.api == 46 || g.api == 43)) && g.one(10) {
		v.SetZero() // all topics, in requests that allow it
		return
	}
	out := reflect.MakeSlice(v.Type(), n, n)
	for i := range n {
		if e := out.Index(i); e.Kind() == reflect.Struct {
			if d := e.Addr().MethodByName("Default"); d.IsValid() {
				d.Call(nil)
			}
		}
		if i > 0 && g.one(25) {
			out.Index(i).Set(out.Index(i - 1)) // a duplicate
			continue
		}
		g.field(in, name, out.Index(i))
	}
	v.Set(out)
}

func (g *gen) flag(name string) bool {
	switch name {
	case "AllowAutoTopicCreation", "IsRenewAck":
		return g.one(4)
	case "ValidateOnly":
		return g.one(3)
	}
	return g.one(2)
}

func (g *gen) uuid(name string) [16]byte {
	switch {
	case name == "TopicID" && g.api == 20, name == "TopicID" && !g.wrong(), name == "Topics":
		return g.topic.id
	case g.one(3):
		return [16]byte{}
	case g.one(3):
		return [16]byte{15: 1} // the id of the metadata topic, which is reserved
	}
	return [16]byte{9, 9, 9, byte(g.rng.IntN(3))}
}

// text returns a value for a string field.
func (g *gen) text(in, name string) string {
	m := g.m
	switch name {
	case "Topic", "TopicNames", "SubscribedTopicNames":
		if g.api == 19 && !g.one(3) {
			return m.name("t" + itoa(g.rng.IntN(12)))
		}
		if name == "SubscribedTopicNames" {
			return pick(g, m.topics...).name
		}
		if !g.wrong() {
			return g.topic.name
		}
		return pick(g, m.name("absent"), "", "a/b", ".", "..", m.long(250), m.long(249), m.name("absent")+"é", "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", strings.ReplaceAll(g.topic.name, "-", "."))
	case "Group", "GroupID", "Groups", "GroupIDs", "CoordinatorKey", "CoordinatorKeys":
		if strings.HasPrefix(name, "Coordinator") {
			return pick(g, g.group.name, m.txns[1].id, g.group.name+":AAAAAAAAAAAAAAAAAAAAAA:0", g.group.name+":x:0", g.group.name+":AAAAAAAAAAAAAAAAAAAAAQ:-1", "", "::", m.long(300))
		}
		if strings.HasSuffix(name, "s") {
			g.group = pick(g, m.groups...)
		}
		if !g.wrong() {
			return g.group.name
		}
		return pick(g, m.name("absent"), "", m.groups[0].name, m.groups[1].name, m.groups[2].name, m.long(300))
	case "MemberID":
		switch {
		case !g.wrong():
			return g.group.member
		case g.one(2):
			return ""
		}
		return pick(g, "nobody", "AAAAAAAAAAAAAAAAAAAAAA", strings.Repeat("m", 300), "-")
	case "InstanceID":
		return pick(g, "one", "two", "")
	case "TransactionalID", "TransactionalIDs":
		if name == "TransactionalIDs" {
			g.txn = pick(g, m.txns...)
		}
		if !g.wrong() {
			return g.txn.id
		}
		return pick(g, "", m.name("absent"), m.long(300))
	case "Protocol", "ServerAssignor":
		return pick(g, "range", "range", "range", "uniform", "", "sticky")
	case "ProtocolType":
		return pick(g, "consumer", "consumer", "consumer", "consumer", "connect", "")
	case "Mechanism":
		return pick(g, "PLAIN", "SCRAM-SHA-256", "", "GSSAPI")
	case "StatesFilter", "StateFilters":
		return pick(g, "Stable", "stable", "Empty", "Dead", "Ongoing", "CompleteCommit", "CompleteAbort", "PrepareCommit", "what", "", "PreparingRebalance", "Assigning", "Reconciling", "NotReady")
	case "TypesFilter":
		return pick(g, "classic", "Classic", "consumer", "share", "streams", "what", "", "unknown")
	case "TransactionalIDPattern":
		return pick(g, m.prefix+".*", m.prefix+".*", "[", "", m.prefix+"-x.", "(?<a>x)")
	case "SubscribedTopicRegex":
		return pick(g, m.prefix+"-t.*", m.prefix+"-t[0-1]", "[", "", "(")
	case "Principal", "PrincipalName", "OwnerPrincipalName":
		return pick(g, "User:"+m.prefix, "User:"+m.prefix, "User:"+m.prefix, "User:"+m.prefix+"2", m.prefix, "User:", "", ":x", "Group:"+m.prefix)
	case "PrincipalType", "OwnerPrincipalType":
		return pick(g, "User", "Group", "")
	case "Host", "Dir":
		return pick(g, "*", "*", "127.0.0.1", "localhost", "", "/tmp/absent")
	case "ResourceName":
		return g.resource(in)
	case "Name":
		switch {
		case strings.HasPrefix(in, "JoinGroup"):
			return pick(g, "range", "range", "range", "sticky", "")
		case strings.Contains(in, "Scram") || strings.Contains(in, "SCRAM"):
			return pick(g, m.name("user"), m.name("user"), m.name("user2"), "", m.name("a,b=c"))
		case strings.Contains(in, "Quotas"):
			return pick(g, m.name("user"), m.name("client"), m.name("client"), "", "127.0.0.9", "é"+m.prefix)
		}
		return g.configName()
	case "ConfigNames":
		return g.configName()
	case "Value":
		return g.configValue()
	case "EntityType", "Type":
		return pick(g, "user", "user", "client-id", "client-id", "ip", "what", "")
	case "Match":
		return pick(g, m.name("user"), m.name("client"), "127.0.0.9", "")
	case "Key":
		return pick(g, "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate", "what", "")
	case "Feature":
		return pick(g, "metadata.version", "group.version", "transaction.version", "share.version", "kraft.version", "eligible.leader.replicas.version", "streams.version", "what", "")
	case "ClientSoftwareName", "ClientSoftwareVersion":
		return pick(g, "kafka", "a b", "", "1.0", "-x", "x-", "é")
	case "ClusterID":
		return pick(g, "wrong", "", "AAAAAAAAAAAAAAAAAAAAAA")
	case "Metadata":
		return pick(g, "", "", "text", strings.Repeat("m", 5000))
	}
	return pick(g, "", "x", "é", strings.Repeat("l", 300))
}

func (g *gen) resource(in string) string {
	m := g.m
	if strings.Contains(in, "ACL") {
		return pick(g, m.name("t0"), m.name("t1"), m.name("g"), m.prefix, m.prefix, "", "kafka-cluster")
	}
	return pick(g, g.topic.name, g.topic.name, g.topic.name, g.topic.name, g.group.name, g.group.name, m.name("metrics"), m.name("absent"), "1", "", "7", "x", "a/b", "-1", "__consumer_offsets")
}

// clientMetrics is the resource type of client metrics subscriptions.
const clientMetrics = 16

func (g *gen) configName() string {
	if g.kind == clientMetrics && !g.one(5) {
		return pick(g, "interval.ms", "match", "metrics")
	}
	return pick(g, "retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas", "max.message.bytes", "message.timestamp.type", "segment.bytes", "compression.type",
		"segment.ms", "index.interval.bytes", "file.delete.delay.ms", "delete.retention.ms", "min.cleanable.dirty.ratio", "message.timestamp.before.max.ms", "unclean.leader.election.enable",
		"leader.replication.throttled.replicas", "remote.storage.enable", "local.retention.ms", "message.format.version", "preallocate", "compression.gzip.level", "segment.jitter.ms",
		"consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.auto.offset.reset", "share.isolation.level", "share.record.lock.duration.ms", "share.session.timeout.ms", "share.heartbeat.interval.ms", "streams.num.standby.replicas",
		"interval.ms", "match", "metrics", "what", "", "listeners", "broker.id", "log.dirs", "process.roles")
}

func (g *gen) configValue() string {
	if g.kind == clientMetrics && !g.one(3) {
		return pick(g, "1000", " 200 ", "99", "3600001", "client_id=x,client_software_name = y", "client_id", "client_id=(", "client_id=a=b", "client_source_port=9=",
			"x=y", "a, b,a", ",", "a,", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "*")
	}
	return pick(g, "3600000", "3600000", "86400000", "-1", "-2", "0", "1", "2", "1048576", "1073741824", "x", "", " ", "compact", "delete", "compact,delete", "delete,delete", "CreateTime", "LogAppendTime", "gzip", "producer", "true", "false", "TRUE", "0.5", "1.5",
		"99999999999999999999", "2147483648", "45000", "50000", "15000", "earliest", "latest", "by_duration:PT1H", "by_duration:x", "read_committed", "*", "0:1", "client_id=x", "client_id=[", "org.apache.kafka.producer.", "9", "30000", "100")
}

var small = []int64{0, 0, 0, 1, 1, -1, 2, -2, 3, 7, 100}

// number returns a value for an integer field.
func (g *gen) number(in, name string) int64 {
	switch name {
	case "Partition", "Partitions":
		return pick[int64](g, 0, 0, 0, 0, 0, 1, 1, 2, 9, -1, -2, math.MaxInt32)
	case "Generation", "MemberEpoch":
		if !g.wrong() {
			return int64(g.group.epoch)
		}
		return int64(g.group.epoch) + pick[int64](g, 1, -1, 99, -g.epoch()-1, -g.epoch()-2, -g.epoch(), -g.epoch()-3, math.MaxInt32-g.epoch())
	case "ShareSessionEpoch":
		if !g.wrong() {
			return int64(g.group.session)
		}
		return pick[int64](g, 0, -1, 1, 2, 99, math.MaxInt32)
	case "ProducerID", "ProducerIDFilters":
		if !g.wrong() {
			return g.txn.producer
		}
		return pick[int64](g, -1, -2, 999_999_999, math.MaxInt64)
	case "ProducerEpoch":
		if !g.wrong() {
			return int64(g.txn.epoch)
		}
		return int64(g.txn.epoch) + pick[int64](g, 1, -1, 5, -9, 32767)
	case "SessionID":
		if !g.one(3) {
			return int64(g.m.session)
		}
		return pick[int64](g, 0, 0, 0, 7, -1)
	case "SessionEpoch":
		if !g.one(3) {
			return int64(g.m.sessionEpoch)
		}
		return pick[int64](g, 0, -1, -1, 1, 5, -3, math.MaxInt32)
	case "CurrentLeaderEpoch", "LeaderEpoch", "LastFetchedEpoch":
		return pick[int64](g, -1, -1, -1, 0, 0, 1, 5, -2, math.MaxInt32)
	case "TimeoutMillis":
		return pick[int64](g, 5000, 10_000, 30_000)
	case "SessionTimeoutMillis":
		if g.one(8) {
			return pick[int64](g, 1, 0, -1, math.MaxInt32, 1_800_001)
		}
		return pick[int64](g, 6000, 10_000, 30_000)
	case "RebalanceTimeoutMillis":
		if g.api == 68 {
			return pick[int64](g, 60_000, 60_000, 60_000, 60_000, -1, -1, 0, 1, -2)
		}
		return pick[int64](g, 200, 300, 300)
	case "MaxWaitMillis":
		return pick[int64](g, 0, 1, 5, 10, -1)
	case "MinBytes":
		return pick[int64](g, 0, 1, 1, 1, -1)
	case "MaxBytes", "PartitionMaxBytes":
		return pick[int64](g, 1<<20, 1<<20, 1<<20, 1<<20, 0, 1, 100, 200, -1, math.MaxInt32)
	case "MaxRecords", "BatchSize":
		return pick[int64](g, 100, 100, 100, 1, 0, -1, 2)
	case "FetchOffset", "Offset", "StartOffset", "FirstOffset", "LastOffset", "LogStartOffset":
		return pick[int64](g, 0, 0, 1, 2, 3, 4, 5, 7, -1, -2, 100, math.MaxInt64, math.MinInt64)
	case "Timestamp":
		return pick[int64](g, -1, -1, -2, -3, -4, -5, -6, -7, 0, startOfTime, startOfTime+1, startOfTime+100, math.MaxInt64, math.MinInt64)
	case "NumPartitions":
		return pick[int64](g, 1, 1, 1, 2, 3, -1, -1, 0, -2, 20_000, math.MaxInt32)
	case "Count":
		return pick[int64](g, 1, 2, 3, 4, 5, 0, -1, 20_000, math.MaxInt32)
	case "ReplicationFactor":
		return pick[int64](g, 1, 1, 1, 1, -1, -1, 0, -2, 2, 32767)
	case "Replicas":
		return pick[int64](g, 1, 1, 1, 1, 1, 2, 0, -1)
	case "TransactionTimeoutMillis":
		return pick[int64](g, 60_000, 60_000, 60_000, 60_000, 0, -1, 900_001, math.MaxInt32)
	case "ReplicaID":
		return pick[int64](g, -1, -1, -1, -1, -1, -1, -1, -1, -2, -3)
	case "IsolationLevel":
		return pick[int64](g, 0, 0, 0, 1, 1, 2, -1)
	case "Acks":
		return pick[int64](g, -1, -1, -1, -1, 1, 1, 0, 2, -2)
	case "ResourceType", "ResourceTypes":
		if strings.Contains(in, "ACL") {
			return pick[int64](g, 2, 2, 3, 3, 5, 6, 7, 0, 1, 8, -1)
		}
		g.kind = pick[int64](g, 2, 2, 2, 2, 2, 32, 32, clientMetrics, 4, 4, 8, 0, 1, 3, -1, 127)
		return g.kind
	case "ResourcePatternType":
		return pick[int64](g, 3, 3, 3, 4, 4, 0, 1, 2, 5, -1)
	case "Operation":
		return pick[int64](g, 3, 3, 4, 5, 8, 2, 1, 0, 6, 7, 9, 10, 11, 12, 13, 15, 16, -1)
	case "PermissionType":
		return pick[int64](g, 3, 3, 3, 2, 1, 0, 4, -1)
	case "Op":
		return pick[int64](g, 0, 0, 0, 0, 1, 1, 2, 3, 4, -1)
	case "Mechanism":
		return pick[int64](g, 1, 1, 2, 0, 3, -1)
	case "Iterations":
		return pick[int64](g, 4096, 4096, 8192, 16384, 16385, 4095, 0, -1, math.MaxInt32)
	case "ResponsePartitionLimit":
		return pick[int64](g, 2000, 2000, 1, 2, 0, -1, math.MaxInt32)
	case "CoordinatorType", "ElectionType", "MatchType", "EndpointType", "UpgradeType", "CompressionType", "ShareAcquireMode":
		return pick[int64](g, 0, 0, 0, 1, 1, 2, 3, -1, 9)
	case "AcknowledgeTypes":
		return pick[int64](g, 1, 1, 1, 2, 3, 0, 4, 5, -1)
	case "MaxVersionLevel":
		return pick[int64](g, 0, 1, 2, 3, 25, 27, 100, -1)
	case "BrokerID":
		return pick[int64](g, 7, -1, 2, math.MaxInt32) // never the id of an existing broker
	case "VoterID":
		return pick[int64](g, 7, -1)
	case "DurationFilterMillis":
		return pick[int64](g, -1, -1, 0, 3_600_000, -5)
	case "CoordinatorEpoch", "TransactionVersion":
		return pick[int64](g, 0, 0, 0, 1, -1)
	case "DeliveryState":
		return pick[int64](g, 0, 2, 4, 1, 3, -1)
	}
	return pick(g, small...)
}

func (g *gen) epoch() int64 { return int64(g.group.epoch) }

const startOfTime = 1_700_000_000_000 // of the records that are written

func (g *gen) bytes(in, name string) []byte {
	switch name {
	case "Records":
		return g.records()
	case "Metadata":
		if in == "JoinGroupRequestProtocol" && !g.wrong() {
			b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0, 0, 1}, uint16(len(g.m.topics[0].name)))
			return append(append(b, g.m.topics[0].name...), 0, 0, 0, 0)
		}
	case "Salt", "SaltedPassword":
		return pick(g, []byte("salt-and-more-of-it"), []byte("salt-and-more-of-it"), nil, []byte{1})
	}
	return pick(g, []byte{}, []byte{1, 2, 3}, []byte{0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 300))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(batch []byte) {
	if len(batch) > 21 {
		binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	}
}

// validRecords returns a valid batch.
func (g *gen) validRecords() []byte {
	var b record.Builder
	n := pick(g, 1, 1, 2, 3)
	key := []byte("k")
	if g.one(4) {
		key = nil
	}
	for i := range n {
		b.AppendKV(startOfTime+int64(g.rng.IntN(50)), key, fmt.Appendf(nil, "value %d %d", i, g.rng.IntN(1000)), nil)
	}
	of := g.txn
	if of.producer >= 0 {
		sequence := of.sequence
		if g.wrong() {
			sequence += pick[int32](g, 1, 5, -1, -sequence)
		}
		epoch := of.epoch
		if g.wrong() {
			epoch += pick[int16](g, 1, -1, 4)
		}
		b.SetProducer(of.producer, epoch, sequence)
		if of.id != "" {
			b.SetTransactional(!g.wrong())
		}
	}
	batch, err := b.Build(pick(g, record.None, record.None, record.Gzip, record.Zstd, record.LZ4, record.Snappy))
	if err != nil {
		panic(err)
	}
	return batch
}

// records returns a batch, a damaged batch, or several batches.
func (g *gen) records() []byte {
	batch := g.validRecords()
	if !g.one(4) {
		return batch
	}
	switch g.rng.IntN(14) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return batch[:g.rng.IntN(len(batch))]
	case 3:
		return append(batch, batch...)
	case 4:
		return make([]byte, 80)
	case 5:
		batch[len(batch)-2] ^= 1
		return batch // the checksum is wrong
	case 6:
		batch[7] = byte(g.rng.IntN(9))
		return batch // the base offset, which the checksum does not cover
	case 7:
		batch[16] = pick[byte](g, 0, 1, 3, 255)
		return batch
	case 8:
		batch[22] = pick[byte](g, 5, 6, 7, 8, 16, 32, 64) // attributes
	case 9:
		// The record count.
		binary.BigEndian.PutUint32(batch[57:], pick[uint32](g, 0, 1, 5, math.MaxUint32))
	case 10:
		// The last offset.
		binary.BigEndian.PutUint32(batch[23:], pick[uint32](g, 0, 1, 5, math.MaxUint32))
	case 11:
		// The first timestamp.
		binary.BigEndian.PutUint64(batch[27:], pick[uint64](g, 0, math.MaxUint64, math.MaxUint64-1, 1<<62))
	case 12:
		// The greatest timestamp.
		binary.BigEndian.PutUint64(batch[35:], pick[uint64](g, 0, math.MaxUint64, math.MaxUint64-1, 1<<62))
	case 13:
		// The length.
		binary.BigEndian.PutUint32(batch[8:], pick[uint32](g, 0, 1, 49, 1<<20, math.MaxUint32))
	}
	sum(batch)
	return batch
}

// request returns the request of a step.
func (g *gen) request(key, version int16) kmsg.Request {
	g.api = key
	g.topic, g.group, g.txn = pick(g, g.m.topics...), g.m.groupOf(g, key), pick(g, g.m.txns...)
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	g.fill(reflect.ValueOf(req).Elem())
	g.tame(req)
	return req
}

// plainRecords returns a batch of n records.
func (g *gen) plainRecords(n int) []byte {
	var b record.Builder
	for i := range n {
		b.AppendKV(startOfTime+int64(i), []byte("k"), value(i), nil)
	}
	batch, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	return batch
}
