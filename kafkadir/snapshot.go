package kafkadir

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// What Kafka starts from: its metadata as of a snapshot, with no log behind it. Kafka's Raft layer
// begins an empty log at the end of the newest snapshot.

// exportedMetadata is 4.0-IV3, the oldest metadata.version of Kafka 4: every broker that takes the
// directory has it, and an operator may go up from there. Kafka: MetadataVersion.
const exportedMetadata = 25

// snapshotEpoch is the epoch of the snapshot, before any controller's.
const snapshotEpoch = 1

// takeRecords reads the metadata of a cluster, without its topics, in the order of a snapshot.
func (ex *exporting) takeRecords(c *replication.Cluster) {
	ex.recs = []metarecord.Record{&metarecord.FeatureLevel{Name: "metadata.version", Level: exportedMetadata}, &metarecord.FeatureLevel{Name: "group.version", Level: 1}}
	if level := c.TransactionVersion(); level > 0 {
		ex.recs = append(ex.recs, &metarecord.FeatureLevel{Name: "transaction.version", Level: level})
	}
	ex.recs = append(ex.recs, &metarecord.ProducerIDs{BrokerID: ex.brokers[0].id, BrokerEpoch: -1, Next: ex.report.NextProducerID})
	users := c.ScramUsers()
	for _, user := range slices.Sorted(maps.Keys(users)) {
		for _, cred := range users[user] {
			ex.recs = append(ex.recs, &metarecord.UserScramCredential{
				Name: user, Mechanism: int8(cred.Mechanism), Salt: cred.Salt, StoredKey: cred.StoredKey, ServerKey: cred.ServerKey, Iterations: int32(cred.Iterations),
			})
			ex.report.Users++
		}
	}
	for _, e := range c.ACLs().Matching(acl.Everything()) {
		ex.recs = append(ex.recs, &metarecord.AccessControlEntry{
			ID: metarecord.ID(topic.NewID()), ResourceType: int8(e.ResourceType), ResourceName: e.ResourceName, PatternType: int8(e.PatternType),
			Principal: e.Principal, Host: e.Host, Operation: int8(e.Operation), Permission: int8(e.Permission),
		})
		ex.report.ACLs++
	}
	for q := range c.ClientQuotas().All() {
		ex.recs = append(ex.recs, q.Record())
		ex.report.Quotas++
	}
	for t := range c.DelegationTokens().All() {
		ex.recs = append(ex.recs, t.Record())
		ex.report.Tokens++
	}
	ex.recs = append(ex.recs, configRecords(metarecord.ResourceBroker, "", c.BrokerConfig(replication.AllBrokers))...)
	for _, b := range ex.brokers {
		ex.recs = append(ex.recs, configRecords(metarecord.ResourceBroker, strconv.Itoa(int(b.id)), c.BrokerConfig(b.id))...)
	}
	metrics, _ := c.ClientMetricsProperties()
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		ex.recs = append(ex.recs, configRecords(metarecord.ResourceClientMetrics, name, metrics[name])...)
	}
	for _, id := range c.ConfiguredGroups() {
		ex.recs = append(ex.recs, configRecords(metarecord.ResourceGroup, id, c.GroupProperties(id))...)
	}
}

func configRecords(kind int8, name string, config map[string]string) (recs []metarecord.Record) {
	for _, k := range slices.Sorted(maps.Keys(config)) {
		v := config[k]
		recs = append(recs, &metarecord.Config{ResourceType: kind, ResourceName: name, Name: k, Value: &v})
	}
	return recs
}

// topicRecords are those of all topics. Each partition is led by the broker in a later epoch than
// ever, which Kafka's controller raises again when the broker registers.
func (ex *exporting) topicRecords() (recs []metarecord.Record) {
	for _, t := range ex.topics {
		config := maps.Clone(internalTopics[t.Name])
		if config == nil {
			config = map[string]string{}
		}
		maps.Copy(config, t.Settings.Explicit())
		recs = append(recs, &metarecord.Topic{Name: t.Name, ID: t.ID})
		recs = append(recs, configRecords(metarecord.ResourceTopic, t.Name, config)...)
		for _, p := range t.Partitions {
			rec := &metarecord.Partition{
				Partition: p.Partition, TopicID: t.ID, Replicas: p.Replicas, ISR: p.ISR, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch + 1,
			}
			for _, id := range p.Replicas {
				rec.Directories = append(rec.Directories, metarecord.ID(ex.broker(id).directory))
			}
			recs = append(recs, rec)
		}
	}
	return recs
}

// snapshots returns the first snapshot of a formatted directory, and the one with everything, with
// the offset at which it ends. They are the same on all brokers.
func (ex *exporting) snapshots() (boot, all []byte, end int64, err error) {
	now := time.Now().UnixMilli()
	if boot, _, err = snapshotFile(ex.recs[:1], now); err != nil {
		return nil, nil, 0, err
	}
	all, end, err = snapshotFile(append(slices.Clone(ex.recs), ex.topicRecords()...), now)
	return boot, all, end, err
}

// writeMetadata writes the snapshots.
func (ex *exporting) writeMetadata(dir string, boot, all []byte, end int64) error {
	fsys := ex.cfg.FS
	if err := vfs.WriteFile(fsys, filepath.Join(dir, bootstrapFile), boot); err != nil {
		return err
	}
	if err := vfs.MakeDir(fsys, filepath.Join(dir, metadataDir), 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(fsys, filepath.Join(dir, metadataDir, fmt.Sprintf("%020d-%010d.checkpoint", end, snapshotEpoch)), all)
}

// snapshotFile returns records as the content of a snapshot, and the offset at which that ends:
// batches between the control records that begin and end it. Kafka: RecordsSnapshotWriter.
func snapshotFile(recs []metarecord.Record, now int64) (content []byte, end int64, err error) {
	const atMost = 512 << 10 // bytes of a batch
	const headerKind, headerSize, footerSize = 3, 2 + 8 + 1, 2 + 1
	content = appendControl(nil, 0, headerKind, make([]byte, headerSize), now)
	end = 1
	var b record.Builder
	flush := func() error {
		if b.Len() == 0 {
			return nil
		}
		b.SetBaseOffset(end)
		b.SetLeaderEpoch(snapshotEpoch)
		n := b.Len()
		p, err := b.Build(record.None)
		content, end = append(content, p...), end+int64(n)
		b = record.Builder{}
		return err
	}
	for _, rec := range recs {
		b.AppendKV(now, nil, metarecord.Append(nil, rec), nil)
		if b.Size() >= atMost {
			if err := flush(); err != nil {
				return nil, 0, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, 0, err
	}
	return appendControl(content, end, controlSnapshotFooter, make([]byte, footerSize), now), end + 1, nil
}

// appendControl appends a control batch of one record.
func appendControl(dst []byte, offset int64, kind uint16, value []byte, now int64) []byte {
	const crcAt, attributesAt, controlBit = 17, 21, 1 << 5
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	var b record.Builder
	b.SetBaseOffset(offset)
	b.SetLeaderEpoch(snapshotEpoch)
	b.AppendKV(now, key, value, nil)
	p := slices.Clone(b.Bytes())
	p[attributesAt+1] |= controlBit
	binary.BigEndian.PutUint32(p[crcAt:], crc32.Checksum(p[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return append(dst, p...)
}
