package kafkadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// metadata is the content of the log of Kafka's controllers.
type metadata struct {
	topics      map[topic.ID]*kafkaTopic
	names       map[string]topic.ID
	configs     map[int8]map[string]map[string]string // by type and name of the resource
	users       map[scramKey]*metarecord.UserScramCredential
	acls        map[metarecord.ID]*metarecord.AccessControlEntry
	quotas      map[string]*metarecord.ClientQuota // by entity and key
	tokens      map[string]*metarecord.DelegationToken
	features    map[string]int16
	directories map[int32][]topic.ID // of brokers
	nextID      int64                // producer id
	skipped     map[string]int       // records that are not kept

	pending []metarecord.Record // of a transaction of the log that has not ended
	within  bool
}

type scramKey struct {
	user      string
	mechanism int8
}

// kafkaTopic is a topic with its partitions by number.
type kafkaTopic struct {
	name       string
	id         topic.ID
	partitions map[int32]*kafkaPartition
}

type kafkaPartition struct {
	replicas, isr []int32
	eligible      []int32 // may lead if the ISR is empty: they have all committed records (KIP-966)
	leaderEpoch   int32
}

// whole reports whether a broker's replica has all committed records.
func (p *kafkaPartition) whole(broker int32) bool {
	return slices.Contains(p.isr, broker) || len(p.isr) == 0 && slices.Contains(p.eligible, broker)
}

func newMetadata() *metadata {
	return &metadata{
		topics: map[topic.ID]*kafkaTopic{}, names: map[string]topic.ID{}, configs: map[int8]map[string]map[string]string{},
		users: map[scramKey]*metarecord.UserScramCredential{}, acls: map[metarecord.ID]*metarecord.AccessControlEntry{},
		quotas: map[string]*metarecord.ClientQuota{}, tokens: map[string]*metarecord.DelegationToken{},
		features: map[string]int16{}, directories: map[int32][]topic.ID{}, skipped: map[string]int{},
	}
}

// readMetadata reads the newest snapshot in the directory of a metadata log, and the log behind it.
// Its last segment may end in an unfinished batch, if the broker was killed.
func readMetadata(fsys vfs.FS, dir string, clean bool) (*metadata, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var segments []string
	snapshot, end := "", int64(0)
	newest := [2]int64{-1, -1} // end offset and epoch
	for _, e := range entries {
		name := e.Name()
		if _, suffix, ok := baseOf(name); ok && suffix == ".log" {
			segments = append(segments, name)
		}
		if id, ok := snapshotID(name); ok && slices.Compare(id[:], newest[:]) > 0 {
			snapshot, newest, end = name, id, id[0]
		}
	}
	slices.Sort(segments)
	m := newMetadata()
	if snapshot != "" {
		if err := m.readSnapshot(fsys, filepath.Join(dir, snapshot)); err != nil {
			return nil, err
		}
	}
	if len(segments) > 0 {
		if first, _, _ := baseOf(segments[0]); first > end {
			return nil, damaged(dir, "the log begins at offset %d, the newest snapshot ends at %d", first, end)
		}
	}
	if name := orphan(entries); name != "" {
		return nil, damaged(filepath.Join(dir, segmentOf(name)), "it is missing, and %s is there", name)
	}
	next := end // of the records read
	for i, name := range segments {
		path := filepath.Join(dir, name)
		base, _, _ := baseOf(name)
		if base > next { // it is never compacted
			return nil, damaged(path, "it begins at offset %d, and what is before it ends at %d", base, next)
		}
		e, err := scanLog(fsys, path, base, func(b *record.Batch) error { return m.batch(path, b, end) })
		if err == nil && e.why != "" && (clean || i < len(segments)-1 || e.later) {
			err = &DamagedError{Path: path, Pos: e.pos, Reason: e.why}
		}
		if err != nil {
			return nil, err
		}
		next = max(next, e.next)
	}
	for _, e := range entries {
		if at, suffix, ok := baseOf(e.Name()); ok && clean && suffix == ".snapshot" && at > next {
			return nil, damaged(dir, "the log ends at offset %d, and %s knows it up to %d: segments are missing, or their ends", next, e.Name(), at)
		}
	}
	return m, nil
}

// snapshotID takes the name of a snapshot apart: the offset at which it ends, and the epoch.
func snapshotID(name string) (id [2]int64, ok bool) {
	text, ok := strings.CutSuffix(name, ".checkpoint")
	end, epoch, found := strings.Cut(text, "-")
	if !ok || !found || len(end) != 20 || len(epoch) != 10 {
		return id, false
	}
	var err1, err2 error
	id[0], err1 = strconv.ParseInt(end, 10, 64)
	id[1], err2 = strconv.ParseInt(epoch, 10, 32)
	return id, err1 == nil && err2 == nil && id[0] >= 0 && id[1] >= 0
}

// Control records of the metadata log that end a snapshot. Kafka: ControlRecordType.
const controlSnapshotFooter = 4

// readSnapshot applies a snapshot, which must be whole.
func (m *metadata) readSnapshot(fsys vfs.FS, path string) error {
	whole := false
	e, err := scanLog(fsys, path, 0, func(b *record.Batch) error {
		if whole = false; b.IsControl() {
			kind, _, err := b.Control()
			whole = err == nil && kind == controlSnapshotFooter
			return nil
		}
		return m.batch(path, b, 0)
	})
	switch {
	case err != nil:
		return err
	case e.why != "":
		return &DamagedError{Path: path, Pos: e.pos, Reason: e.why}
	case !whole:
		return damaged(path, "the snapshot has no end")
	}
	return nil
}

// batch applies the records of a batch from the offset from on.
func (m *metadata) batch(path string, b *record.Batch, from int64) error {
	if b.IsControl() || b.NextOffset() <= from {
		return nil
	}
	for r, err := range b.All() {
		if err != nil {
			return damaged(path, "batch at offset %d: %v", b.BaseOffset, err)
		}
		if r.Offset < from {
			continue
		}
		rec, err := metarecord.Parse(r.Value)
		if unknown, ok := errors.AsType[*metarecord.UnknownError](err); ok {
			if err := m.skip(unknown); err != nil {
				return fmt.Errorf("%w: %s at offset %d", err, path, r.Offset)
			}
			continue
		}
		if err == nil {
			err = m.take(rec)
		}
		if err != nil {
			return damaged(path, "record at offset %d: %v", r.Offset, err)
		}
	}
	return nil
}

// recordNames has the names of the types of metadata records. Kafka: MetadataRecordType.
var recordNames = map[int]string{
	0: "RegisterBrokerRecord", 1: "UnregisterBrokerRecord", 2: "TopicRecord", 3: "PartitionRecord", 4: "ConfigRecord", 5: "PartitionChangeRecord",
	6: "AccessControlRecord", 7: "FenceBrokerRecord", 8: "UnfenceBrokerRecord", 9: "RemoveTopicRecord", 10: "DelegationTokenRecord",
	11: "UserScramCredentialRecord", 12: "FeatureLevelRecord", 14: "ClientQuotaRecord", 15: "ProducerIdsRecord", 17: "BrokerRegistrationChangeRecord",
	18: "AccessControlEntryRecord", 19: "RemoveAccessControlEntryRecord", 21: "ZkMigrationStateRecord", 22: "RemoveUserScramCredentialRecord",
	26: "RemoveDelegationTokenRecord", 27: "RegisterControllerRecord", 28: "ClearElrRecord",
}

// neededRecords are the types that an import cannot do without: topics and access rules depend on
// them.
var neededRecords = map[int]bool{2: true, 3: true, 4: true, 5: true, 9: true, 15: true, 18: true, 19: true, 23: true, 24: true, 25: true}

// skip counts a record that cannot be read. One of a later version that is needed is an error.
func (m *metadata) skip(u *metarecord.UnknownError) error {
	if neededRecords[u.Type] {
		return fmt.Errorf("%w: %s of version %d", ErrUnsupported, recordNames[u.Type], u.Version)
	}
	m.skipped[cmp.Or(recordNames[u.Type], "type "+strconv.Itoa(u.Type))]++
	return nil
}

// take applies a record, or keeps it until the transaction that it is in has ended.
func (m *metadata) take(rec metarecord.Record) error {
	switch rec.(type) {
	case *metarecord.BeginTransaction:
		m.within, m.pending = true, nil
	case *metarecord.EndTransaction:
		recs := m.pending
		m.within, m.pending = false, nil
		for _, rec := range recs {
			if err := m.apply(rec); err != nil {
				return err
			}
		}
	case *metarecord.AbortTransaction:
		m.within, m.pending = false, nil
	default:
		if !m.within {
			return m.apply(rec)
		}
		m.pending = append(m.pending, rec)
	}
	return nil
}

func (m *metadata) apply(rec metarecord.Record) error {
	switch rec := rec.(type) {
	case *metarecord.Topic:
		if err := topic.ValidateName(rec.Name); err != nil {
			return err
		}
		m.topics[rec.ID] = &kafkaTopic{rec.Name, rec.ID, map[int32]*kafkaPartition{}}
		m.names[rec.Name] = rec.ID
	case *metarecord.RemoveTopic:
		if t := m.topics[rec.ID]; t != nil {
			delete(m.topics, rec.ID)
			delete(m.names, t.name)
			delete(m.configs[metarecord.ResourceTopic], t.name)
		}
	case *metarecord.Partition:
		t := m.topics[rec.TopicID]
		if t == nil || rec.Partition < 0 {
			return fmt.Errorf("partition %d of unknown topic %v", rec.Partition, topic.ID(rec.TopicID))
		}
		t.partitions[rec.Partition] = &kafkaPartition{rec.Replicas, rec.ISR, rec.EligibleLeaders, rec.LeaderEpoch}
	case *metarecord.PartitionChange:
		return m.applyPartitionChange(rec)
	case *metarecord.Config:
		m.applyConfig(rec)
	case *metarecord.RegisterBroker:
		m.directories[rec.BrokerID] = nil
		for _, id := range rec.Directories {
			m.directories[rec.BrokerID] = append(m.directories[rec.BrokerID], id)
		}
	case *metarecord.FeatureLevel:
		m.features[rec.Name] = rec.Level
	case *metarecord.ProducerIDs:
		m.nextID = max(m.nextID, rec.Next)
	case *metarecord.UnregisterBroker:
		delete(m.directories, rec.BrokerID)
	case *metarecord.NoOp:
		if rec.Snapshot { // Strata's log: the records before it do not count any more
			*m = *newMetadata()
		}
	default:
		m.applyAccess(rec)
	}
	return nil
}

// quotaText names a quota: its entity, whose parts may come in any order, and its key.
func quotaText(q *metarecord.ClientQuota) string {
	var parts []string
	for _, p := range q.Entity {
		if p.Name == nil {
			parts = append(parts, p.Type+" (default)")
		} else {
			parts = append(parts, fmt.Sprintf("%s %q", p.Type, *p.Name))
		}
	}
	slices.Sort(parts)
	return q.Key + " of " + strings.Join(parts, " ")
}

// applyAccess applies records of users, access rules, quotas and tokens. Other types are dropped.
func (m *metadata) applyAccess(rec metarecord.Record) {
	switch rec := rec.(type) {
	case *metarecord.UserScramCredential:
		m.users[scramKey{rec.Name, rec.Mechanism}] = rec
	case *metarecord.RemoveUserScramCredential:
		delete(m.users, scramKey{rec.Name, rec.Mechanism})
	case *metarecord.AccessControlEntry:
		m.acls[rec.ID] = rec
	case *metarecord.RemoveAccessControlEntry:
		delete(m.acls, rec.ID)
	case *metarecord.ClientQuota:
		if id := quotaText(rec); rec.Remove {
			delete(m.quotas, id)
		} else {
			m.quotas[id] = rec
		}
	case *metarecord.DelegationToken:
		m.tokens[rec.TokenID] = rec
	case *metarecord.RemoveDelegationToken:
		delete(m.tokens, rec.TokenID)
	}
}

func (m *metadata) applyPartitionChange(rec *metarecord.PartitionChange) error {
	t := m.topics[rec.TopicID]
	if t == nil || t.partitions[rec.Partition] == nil {
		return fmt.Errorf("change of unknown partition %d of topic %v", rec.Partition, topic.ID(rec.TopicID))
	}
	p := t.partitions[rec.Partition]
	if rec.ISR != nil {
		p.isr = rec.ISR
	}
	if rec.Replicas != nil {
		p.replicas = rec.Replicas
	}
	if rec.EligibleLeaders != nil {
		p.eligible = rec.EligibleLeaders
	}
	if rec.Leader != metarecord.NoChange {
		p.leaderEpoch++
	}
	return nil
}

func (m *metadata) applyConfig(rec *metarecord.Config) {
	names := m.configs[rec.ResourceType]
	if names == nil {
		names = map[string]map[string]string{}
		m.configs[rec.ResourceType] = names
	}
	if names[rec.ResourceName] == nil {
		names[rec.ResourceName] = map[string]string{}
	}
	if rec.Value == nil {
		delete(names[rec.ResourceName], rec.Name)
	} else {
		names[rec.ResourceName][rec.Name] = *rec.Value
	}
}

// findMetadata reads the metadata log of a broker, which is in one of its directories; nil: in
// none.
func findMetadata(sources []*source) (*metadata, error) {
	for _, s := range sources {
		if s.metadata {
			m, err := readMetadata(s.fsys, filepath.Join(s.dir, metadataDir), s.clean)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return m, err
		}
	}
	return nil, nil
}

// sortedTopics returns the topics by name.
func (m *metadata) sortedTopics() []*kafkaTopic {
	return slices.SortedFunc(maps.Values(m.topics), func(a, b *kafkaTopic) int { return cmp.Compare(a.name, b.name) })
}
