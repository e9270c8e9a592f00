package kafkadir

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func check(t *testing.T, fsys vfs.FS) *CheckReport {
	t.Helper()
	r, err := Check(t.Context(), CheckConfig{Dir: "data", FS: fsys})
	require.NoError(t, err)
	for i := 1; i < len(r.Findings); i++ {
		require.LessOrEqual(t, r.Findings[i-1].Severity.rank(), r.Findings[i].Severity.rank(), "the most severe first")
	}
	return r
}

// finding returns the finding about something, which must exist.
func finding(t *testing.T, r *CheckReport, about string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if strings.HasPrefix(f.About, about) {
			return f
		}
	}
	require.Fail(t, "no finding", "about %s in %v", about, r.Findings)
	return Finding{}
}

func TestCheckOfAKilledClusterNamesTheDifferencesAndWritesNothing(t *testing.T) {
	disk := fill(t)
	before := files(t, disk, "data")
	r := check(t, disk)
	require.Equal(t, before, files(t, disk, "data"))
	require.True(t, r.Ready())
	require.Equal(t, []int32{1}, r.Brokers)
	require.Equal(t, 5, r.Topics)
	require.Equal(t, 10, r.Partitions)
	require.Equal(t, 10, r.Replicas)
	require.Equal(t, 1, r.Groups)
	require.Greater(t, r.Bytes, int64(60*40_000))
	for about, want := range map[string]Finding{
		"users":                                 {Severity: Change, Text: "2 SCRAM credentials", Do: "sasl.enabled.mechanisms"},
		"access control entries":                {Severity: Change, Text: "1 are carried", Do: "StandardAuthorizer"},
		"client quotas":                         {Severity: Note, Text: "3 are carried"},
		"delegation tokens":                     {Severity: Change, Text: "same secret", Do: "delegation.token.secret.key"},
		"committed offsets":                     {Severity: Change, Text: "7 days", Do: "offsets.retention.minutes"},
		"acknowledged records of latest":        {Severity: Change, Text: "power cut", Do: "strata topics reassign --replicas 3"},
		"topics with one replica: latest":       {Severity: Change, Text: "lost with their broker", Do: "strata topics reassign --replicas 3"},
		"internal topics with one replica: __":  {Severity: Change, Do: "--internal"},
		"internal topics":                       {Severity: Change},
		"features":                              {Severity: Change, Text: "transaction.version 2", Do: "kafka-features.sh upgrade"},
		"settings of the process":               {Severity: Note, Do: "server.properties"},
		"acknowledged records of latest, never": {Severity: Change},
	} {
		f := finding(t, r, about)
		require.Equal(t, want.Severity, f.Severity, about)
		require.Contains(t, f.Text, want.Text)
		require.Contains(t, f.Do, want.Do)
	}
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err, "it is ready")
}

func TestCheckNamesSettingsWithAnotherMeaning(t *testing.T) {
	disk := vfs.Mem()
	c := open(t, disk, "data")
	for name, set := range map[string]map[string]string{
		"hundred": {"flush.messages": "100"}, "one": {"flush.messages": "1"}, "never": {"flush.messages": neverFlush}, "timed": {"flush.ms": "1000"}, "default": nil,
	} {
		require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Properties: set}))
	}
	require.NoError(t, c.Close())
	r := check(t, disk)
	f := finding(t, r, "topic hundred")
	require.Contains(t, f.Text, "flush.messages=100")
	require.Contains(t, f.Text, "Kafka acknowledges before it flushes")
	require.Equal(t, "acknowledged records of default", finding(t, r, "acknowledged records").About)
	require.Equal(t, "flush.messages=1 of one", finding(t, r, "flush.messages=1").About)
	for _, f := range r.Findings {
		require.NotContains(t, f.About+" ", "topic never ")
		require.NotContains(t, f.About+" ", "topic timed ")
	}
}

func TestCheckNamesSessionsBelowKafkasBounds(t *testing.T) {
	disk := vfs.Mem()
	cfg := strata.Config{FS: disk, Dir: "data"}
	cfg.Group.OffsetsPartitions, cfg.Group.MinSessionTimeout = 1, 100*time.Millisecond
	cfg.Group.ConsumerMinSessionTimeout = time.Second
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
	require.NoError(t, c.Backend().AlterGroupProperties(t.Context(), "modern", func(map[string]string) (map[string]string, error) {
		return map[string]string{"consumer.session.timeout.ms": "9000"}, nil
	}))
	require.NoError(t, c.ResetOffsets(t.Context(), "idle", record.Offsets{{Topic: "orders"}: 0}))
	member, err := consumer.New(c, consumer.Config{Group: "short", Topics: []string{"orders"}, ClientID: "shop", SessionTimeout: 2 * time.Second})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range member.Records(ctx) {
		}
	}()
	_, err = c.WaitGroup(t.Context(), "short", func(g group.Info) bool { return len(g.Members) == 1 && g.State == group.Stable })
	require.NoError(t, err)

	running := check(t, disk.Kill())
	cancel()
	<-ended
	require.NoError(t, member.Close())
	_, err = c.WaitGroup(t.Context(), "short", func(g group.Info) bool { return len(g.Members) == 0 })
	require.NoError(t, err)
	r := check(t, disk.Kill())
	require.Equal(t, running.Findings, r.Findings, "also when the application has stopped")
	require.True(t, r.Ready())
	require.Equal(t, 2, r.Groups)
	f := finding(t, r, "group short")
	require.Contains(t, f.Text, `the last session timeout of client "shop" is 2000 ms; Kafka rejects members below 6000 ms`)
	f = finding(t, r, "group modern")
	require.Contains(t, f.Text, "consumer.session.timeout.ms=9000 is below Kafka's bound of 45000")
	require.Contains(t, f.Do, "group.consumer.min.session.timeout.ms")
}

func TestCheckNamesTheReasonsForWhichExportRejectsACluster(t *testing.T) {
	disk := fillThree(t)
	require.True(t, check(t, disk).Ready())

	c := open(t, disk, "data")
	r := check(t, disk)
	require.False(t, r.Ready())
	require.Contains(t, finding(t, r, "broker 2").Text, "a process has its directory open")
	_, err := Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, c.Close())

	require.NoError(t, disk.Rename("data/broker-2", "elsewhere"))
	r = check(t, disk)
	require.False(t, r.Ready())
	require.Equal(t, Finding{Blocker, "broker 2", "its directory is not in data, so export rejects the cluster", "move the broker's directory to data/broker-2"}, finding(t, r, "broker"))
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.ErrorIs(t, err, ErrBrokerMissing)

	_, err = Check(t.Context(), CheckConfig{Dir: "nowhere", FS: disk})
	require.ErrorIs(t, err, ErrForeign)
	require.NoError(t, disk.Rename("elsewhere", "data/broker-2"))
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	_, err = Check(t.Context(), CheckConfig{Dir: "kafka", FS: disk})
	require.ErrorIs(t, err, ErrForeign, "Kafka's directory")
}

// Versions before and after this one may have written settings that Kafka lacks.
func TestCheckNamesSettingsThatKafkaDoesNotKnow(t *testing.T) {
	m, id := newMetadata(), metarecord.ID(topic.NewID())
	value := "1"
	for _, rec := range []metarecord.Record{
		&metarecord.Topic{Name: "orders", ID: id},
		&metarecord.Partition{TopicID: id, Replicas: []int32{1}},
		&metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: "orders", Name: "strata.extra", Value: &value},
		&metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: "orders", Name: "retention.ms", Value: &value},
		&metarecord.Config{ResourceType: metarecord.ResourceBroker, ResourceName: "", Name: "strata.more", Value: &value},
	} {
		require.NoError(t, m.apply(rec))
	}
	ck := &checking{meta: m, report: &CheckReport{}}
	ck.topics()
	ck.replicas()
	require.False(t, ck.report.Ready())
	require.Equal(t, Finding{Blocker, "topic orders", "strata.extra is no setting of Kafka", "strata topics alter orders --unset strata.extra"}, finding(t, ck.report, "topic orders"))
	require.Contains(t, finding(t, ck.report, "broker settings of all brokers").Text, "strata.more")
	require.Contains(t, finding(t, ck.report, "partitions orders-0").Text, "no replica in sync")
	for _, f := range ck.report.Findings {
		require.NotContains(t, f.Text, "retention.ms")
	}
}

// The metadata log of a cluster with many changes begins with a snapshot.
func TestCheckReadsMetadataThatBeginWithASnapshot(t *testing.T) {
	disk := vfs.Mem()
	c := open(t, disk, "data")
	require.NoError(t, c.CreateTopic(t.Context(), "gone", topic.Config{}))
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	require.NoError(t, c.DeleteTopic(t.Context(), "gone"))
	const log = "data/broker-1/__cluster_metadata-0/00000000000000000000.log"
	for i := 0; ; i++ {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d:1,", i%2), 8000), ",")
		require.NoError(t, c.Backend().AlterTopicConfig(t.Context(), "orders", replication.ConfigChange{Key: "follower.replication.throttled.replicas", Value: list}))
		if _, err := disk.Stat(log); err != nil {
			break
		}
		require.Less(t, i, 2000, "there is a snapshot")
	}
	require.NoError(t, c.Close())
	r := check(t, disk)
	require.Equal(t, 1, r.Topics)
	require.Equal(t, 2, r.Partitions)
	require.Equal(t, []int32{1}, r.Brokers)
}

func TestCheckNamesTopicsWhoseRecordsKafkaDeletes(t *testing.T) {
	disk := vfs.Mem()
	cfg := strata.Config{FS: disk, Dir: "data"}
	cfg.Defaults.Properties = map[string]string{"retention.ms": "-1"} // of this process only
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for name, set := range map[string]string{"bare": "", "kept": "retention.ms", "compacted": "cleanup.policy"} {
		properties := map[string]string{"segment.bytes": "1048576"}
		if set != "" {
			properties[set] = map[string]string{"retention.ms": "-1", "cleanup.policy": "compact"}[set]
		}
		require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Properties: properties}))
		old := time.Now().Add(-30 * 24 * time.Hour)
		for i := range 30 {
			_, err := p.Send(t.Context(), record.Record{Topic: name, Key: []byte(fmt.Sprint(i)), Value: make([]byte, 100_000), Timestamp: old})
			require.NoError(t, err)
		}
	}
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	f := finding(t, check(t, disk), "topic bare")
	require.Equal(t, Change, f.Severity)
	require.Contains(t, f.Text, "20 records are older than 7 days")
	require.Contains(t, f.Do, "strata topics alter bare --set retention.ms=-1")
	for _, f := range check(t, disk).Findings {
		require.NotEqual(t, "topic kept", f.About)
		require.NotEqual(t, "topic compacted", f.About)
	}
}

func TestIndexWithoutRoomForAnEntryIsABlocker(t *testing.T) {
	for of, config := range map[string][2]string{"the topic": {"segment.index.bytes", ""}, "all brokers": {"", "log.index.size.max.bytes"}} {
		t.Run(of, func(t *testing.T) {
			disk := vfs.Mem()
			c := open(t, disk, "data")
			var properties map[string]string
			if config[0] != "" {
				properties = map[string]string{config[0]: "8"}
			}
			require.NoError(t, c.CreateTopic(t.Context(), "small", topic.Config{Properties: properties}))
			if config[1] != "" {
				require.NoError(t, c.AlterBrokerConfig(t.Context(), -1, replication.ConfigChange{Key: config[1], Op: replication.SetConfig, Value: "8"}))
			}
			require.NoError(t, c.Close())
			r := check(t, disk)
			require.False(t, r.Ready())
			require.Contains(t, finding(t, r, "topic small").Do, "segment.index.bytes=10485760")
		})
	}
}
