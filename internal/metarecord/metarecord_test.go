package metarecord

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	id  = ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	dir = ID{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20}
)

func text(s string) *string { return &s }

// golden holds the bytes that Kafka 4.3.0's MetadataRecordSerde writes for the same records.
var golden = map[string]struct {
	hex string
	rec Record
}{
	"topic": {"010200076f72646572730102030405060708090a0b0c0d0e0f1000", &Topic{"orders", id}},
	"partition 0": {"010300000000020102030405060708090a0b0c0d0e0f1004000000010000000200000003030000000100000002010100000001000000050000000700",
		&Partition{Partition: 2, TopicID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}, Leader: 1, LeaderEpoch: 5, PartitionEpoch: 7}},
	"partition 0, recovering": {"010300000000020102030405060708090a0b0c0d0e0f100200000001020000000102000000040200000005ffffffff000000000000000001000101",
		&Partition{Partition: 2, TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Removing: []int32{4}, Adding: []int32{5}, Leader: -1, Recovering: true}},
	"partition 1": {"010301000000000102030405060708090a0b0c0d0e0f10020000000102000000010101000000010000000000000000021112131415161718191a1b1c1d1e1f2000",
		&Partition{TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []ID{dir}}},
	"partition 2": {"010302000000000102030405060708090a0b0c0d0e0f1003000000010000000202000000010101000000010000000300000004031112131415161718191a1b1c1d1e1f201112131415161718191a1b1c1d1e1f20020105020000000202050200000001",
		&Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 4, Directories: []ID{dir, dir}, EligibleLeaders: []int32{2}, LastKnownLeader: []int32{1}}},
	"config":         {"01040002076f72646572730d726574656e74696f6e2e6d7306363030303000", &Config{ResourceTopic, "orders", "retention.ms", text("60000")}},
	"config removed": {"01040002076f72646572730d726574656e74696f6e2e6d730000", &Config{ResourceTopic, "orders", "retention.ms", nil}},
	"change":         {"010500000000020102030405060708090a0b0c0d0e0f1001010400000001", &PartitionChange{Partition: 2, TopicID: id, Leader: 1, Recovery: -1}},
	"change of all": {"010500000000020102030405060708090a0b0c0d0e0f10060009030000000300000001010400000003020903000000030000000103010104050200000009050100",
		&PartitionChange{Partition: 2, TopicID: id, Leader: 3, ISR: []int32{3, 1}, Replicas: []int32{3, 1}, Removing: []int32{}, Adding: []int32{9}, Recovery: 0}},
	"change 2": {"010502000000020102030405060708090a0b0c0d0e0f10040005020000000306050200000001070502000000020811021112131415161718191a1b1c1d1e1f20",
		&PartitionChange{Partition: 2, TopicID: id, Leader: NoChange, ISR: []int32{3}, Recovery: -1, EligibleLeaders: []int32{1}, LastKnownLeader: []int32{2}, Directories: []ID{dir}}},
	"remove topic":   {"0109000102030405060708090a0b0c0d0e0f1000", &RemoveTopic{id}},
	"producer ids":   {"010f0000000001000000000000000900000000000007d000", &ProducerIDs{1, 9, 2000}},
	"no-op":          {"01140000", &NoOp{}},
	"broker, fenced": {"01000300000003000102030405060708090a0b0c0d0e0f10000000000000004d010101010000", &RegisterBroker{BrokerID: 3, IncarnationID: id, BrokerEpoch: 77, Rack: text(""), Fenced: true}},
	"broker": {"01000300000003000102030405060708090a0b0c0d0e0f10000000000000004d020a504c41494e544558540268238400000002116d657461646174612e76657273696f6e0001001d00077261636b2d610001010011021112131415161718191a1b1c1d1e1f20",
		&RegisterBroker{BrokerID: 3, IncarnationID: id, BrokerEpoch: 77, EndPoints: []EndPoint{{"PLAINTEXT", "h", 9092, 0}}, Features: []BrokerFeature{{"metadata.version", 1, 29}},
			Rack: text("rack-a"), InControlledShutdown: true, Directories: []ID{dir}}},
	"broker gone":             {"01010000000003000000000000004d00", &UnregisterBroker{3, 77}},
	"broker fenced":           {"01110000000003000000000000004d01000101", &BrokerChange{BrokerID: 3, BrokerEpoch: 77, Fenced: Set}},
	"broker shutting down":    {"01110100000003000000000000004d020001ff010101", &BrokerChange{BrokerID: 3, BrokerEpoch: 77, Fenced: Unset, InControlledShutdown: Set}},
	"broker with a directory": {"01110200000003000000000000004d010211021112131415161718191a1b1c1d1e1f20", &BrokerChange{BrokerID: 3, BrokerEpoch: 77, Directories: []ID{dir}}},
	"broker without a change": {"01110000000003000000000000004d00", &BrokerChange{BrokerID: 3, BrokerEpoch: 77}},
	"user": {"010b0006616c696365010301020203010000100000",
		&UserScramCredential{Name: "alice", Mechanism: 1, Salt: []byte{1, 2}, StoredKey: []byte{3}, ServerKey: []byte{}, Iterations: 4096}},
	"user removed": {"01160006616c6963650200", &RemoveUserScramCredential{Name: "alice", Mechanism: 2}},
	"quota": {"010e00030a636c69656e742d69640461707000057573657206616c6963650013726571756573745f70657263656e7461676540290000000000000000",
		&ClientQuota{Entity: []QuotaPart{{"client-id", text("app")}, {"user", text("alice")}}, Key: "request_percentage", Value: 12.5}},
	"quota of a default": {"010e0002036970000019636f6e6e656374696f6e5f6372656174696f6e5f7261746540240000000000000000",
		&ClientQuota{Entity: []QuotaPart{{"ip", nil}}, Key: "connection_creation_rate", Value: 10}},
	"quota removed": {"010e000205757365720261001370726f64756365725f627974655f7261746500000000000000000100",
		&ClientQuota{Entity: []QuotaPart{{"user", text("a")}}, Key: "producer_byte_rate", Remove: true}},
	"token": {"010a000b557365723a616c69636509557365723a626f62030b557365723a6361726f6c0a557365723a6461766500000000000000010000000000000002000000000000000303696400",
		&DelegationToken{Owner: "User:alice", Requester: "User:bob", Renewers: []string{"User:carol", "User:dave"}, IssueTimestamp: 1, MaxTimestamp: 2, ExpirationTimestamp: 3, TokenID: "id"}},
	"token removed": {"011a0003696400", &RemoveDelegationToken{"id"}},
	"access": {"0112000102030405060708090a0b0c0d0e0f1002076f7264657273030b557365723a616c696365022a030300",
		&AccessControlEntry{ID: id, ResourceType: 2, ResourceName: "orders", PatternType: 3, Principal: "User:alice", Host: "*", Operation: 3, Permission: 3}},
	"access removed":       {"0113000102030405060708090a0b0c0d0e0f1000", &RemoveAccessControlEntry{id}},
	"feature":              {"010c00116d657461646174612e76657273696f6e001d00", &FeatureLevel{"metadata.version", 29}},
	"begin":                {"01170001000909736e617073686f74", &BeginTransaction{"snapshot"}},
	"begin without a name": {"01170000", &BeginTransaction{}},
	"end":                  {"01180000", &EndTransaction{}},
	"abort":                {"01190001000505676f6e65", &AbortTransaction{"gone"}},
}

func TestRecordsAreByteForByteKafkas(t *testing.T) {
	for name, g := range golden {
		require.Equal(t, g.hex, hex.EncodeToString(Append(nil, g.rec)), name)
		p, err := hex.DecodeString(g.hex)
		require.NoError(t, err)
		rec, err := Parse(p)
		require.NoError(t, err, name)
		require.Equal(t, g.rec, rec, name)
	}
}

// The tagged field is Strata's. To Kafka it is a field that a later version may have added.
func TestBeginOfASnapshotIsATagOfANoOp(t *testing.T) {
	p := Append(nil, &NoOp{Snapshot: true})
	require.Equal(t, "01140001904e0101", hex.EncodeToString(p))
	rec, err := Parse(p)
	require.NoError(t, err)
	require.Equal(t, &NoOp{Snapshot: true}, rec)
}

func TestUnknownRecordsAreNamed(t *testing.T) {
	for h, want := range map[string]UnknownError{
		"010d00":     {13, 0},
		"010e01":     {14, 1},
		"011b0400":   {27, 4},
		"010201":     {2, 1},
		"0103030000": {3, 3},
	} {
		p, _ := hex.DecodeString(h)
		_, err := Parse(p)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown, h)
		require.Equal(t, want, *unknown)
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	for name, g := range golden {
		p, _ := hex.DecodeString(g.hex)
		for n := range p {
			_, err := Parse(p[:n])
			require.ErrorIs(t, err, ErrInvalid, "%s cut to %d bytes", name, n)
		}
		_, err := Parse(append(p, 0))
		require.ErrorIs(t, err, ErrInvalid, "%s with a byte too many", name)
	}
	for _, h := range []string{"", "02020000", "0102000000", "010200ffffffff0f61", "01090000000000000000000000000000000000" + "02000000" + "0000", "0109000102030405060708090a0b0c0d0e0f10ffffffff0f"} {
		p, err := hex.DecodeString(h)
		require.NoError(t, err)
		_, err = Parse(p)
		require.ErrorIs(t, err, ErrInvalid, h)
	}
}

// Records of an older Kafka are read, and written again in the newest version.
func TestOlderVersionsOfARegistrationAreRead(t *testing.T) {
	for h, want := range map[string]*RegisterBroker{
		"01000000000003" + "0102030405060708090a0b0c0d0e0f10" + "000000000000004d0101077261636b2d610000": {
			BrokerID: 3, IncarnationID: id, BrokerEpoch: 77, Rack: text("rack-a")},
		"01000100000003" + "0102030405060708090a0b0c0d0e0f10" + "000000000000004d010101000100": {
			BrokerID: 3, IncarnationID: id, BrokerEpoch: 77, Rack: text(""), InControlledShutdown: true},
		"0100020000000300" + "0102030405060708090a0b0c0d0e0f10" + "000000000000004d0101077261636b2d61010100": {
			BrokerID: 3, IncarnationID: id, BrokerEpoch: 77, Rack: text("rack-a"), Fenced: true, InControlledShutdown: true},
	} {
		p, err := hex.DecodeString(h)
		require.NoError(t, err)
		rec, err := Parse(p)
		require.NoError(t, err, h)
		require.Equal(t, want, rec)
	}
}

func TestUnknownTagsAreSkipped(t *testing.T) {
	p, _ := hex.DecodeString("0109000102030405060708090a0b0c0d0e0f10" + "01" + "07" + "02" + "beef")
	rec, err := Parse(p)
	require.NoError(t, err)
	require.Equal(t, &RemoveTopic{id}, rec)
}

func FuzzParse(f *testing.F) {
	for _, g := range golden {
		p, _ := hex.DecodeString(g.hex)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		rec, err := Parse(p)
		if err != nil {
			return
		}
		again, err := Parse(Append(nil, rec))
		require.NoError(t, err)
		require.Equal(t, Append(nil, rec), Append(nil, again))
	})
}

func TestParseAllocatesNoMoreThanItsInputHolds(t *testing.T) {
	// The input claims four billion elements in a few bytes.
	p, _ := hex.DecodeString("01030000000002" + "0102030405060708090a0b0c0d0e0f10" + "ffffffff0f")
	require.Less(t, testing.AllocsPerRun(10, func() { _, _ = Parse(p) }), 20.0)
}

// The tag is Strata's: Kafka reads the fields of a partition that it knows, and skips the others.
func TestLedIsATagOfPartitions(t *testing.T) {
	rec := &Partition{TopicID: id, Leader: 1, LeaderEpoch: 4, LedBy: 1, LedSince: 2}
	p := Append(nil, rec)
	require.Equal(t, "010300000000000102030405060708090a0b0c0d0e0f100101010100000001000000040000000001914e080000000100000002", hex.EncodeToString(p))
	again, err := Parse(p)
	require.NoError(t, err)
	require.Equal(t, rec, again)
}

// The tag is Strata's: Kafka reads the fields of a partition that it knows, and skips the others.
func TestDurableIsATagOfPartitions(t *testing.T) {
	for want, rec := range map[string]Record{
		"010300000000000102030405060708090a0b0c0d0e0f100101010100000001000000000000000001904e0101": &Partition{TopicID: id, Leader: 1, Durable: true},
		"010500000000000102030405060708090a0b0c0d0e0f1001904e0101":                                 &PartitionChange{TopicID: id, Leader: NoChange, Recovery: -1, Durable: Set},
		"010500000000000102030405060708090a0b0c0d0e0f1002010400000002904e01ff":                     &PartitionChange{TopicID: id, Leader: 2, Recovery: -1, Durable: Unset},
	} {
		p := Append(nil, rec)
		require.Equal(t, want, hex.EncodeToString(p))
		again, err := Parse(p)
		require.NoError(t, err)
		require.Equal(t, rec, again)
	}
}
