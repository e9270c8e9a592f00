package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
)

// A member is what the metadata says of one broker of the cluster. Immutable once published.
type member struct {
	incarnation metarecord.ID // drawn anew whenever the broker starts
	epoch       int64         // grows with every incarnation; Kafka: broker epoch
	directory   metarecord.ID // of its meta.properties: a disk that was replaced has another
	rack        string
	fenced      bool // it does not serve; its partitions have no leader
	leaving     bool // it is about to be fenced: it leads nothing and gets nothing new. Kafka: in controlled shutdown
}

// applyRegisterBroker begins an incarnation of a broker.
func (m *image) applyRegisterBroker(rec *metarecord.RegisterBroker) error {
	if had, ok := m.members[rec.BrokerID]; ok && rec.BrokerEpoch <= had.epoch {
		return fmt.Errorf("broker %d registers with epoch %d, it had %d", rec.BrokerID, rec.BrokerEpoch, had.epoch)
	}
	r := member{incarnation: rec.IncarnationID, epoch: rec.BrokerEpoch, fenced: rec.Fenced, leaving: rec.InControlledShutdown}
	if len(rec.Directories) > 0 {
		r.directory = rec.Directories[0]
	}
	if rec.Rack != nil {
		r.rack = *rec.Rack
	}
	m.setMember(rec.BrokerID, r)
	return nil
}

func (m *image) applyUnregisterBroker(rec *metarecord.UnregisterBroker) error {
	if r, ok := m.members[rec.BrokerID]; !ok || r.epoch != rec.BrokerEpoch {
		return fmt.Errorf("removal of broker %d with epoch %d, it has %d", rec.BrokerID, rec.BrokerEpoch, r.epoch)
	}
	members := maps.Clone(m.members)
	delete(members, rec.BrokerID)
	m.members = members
	return nil
}

func (m *image) applyBrokerChange(rec *metarecord.BrokerChange) error {
	r, ok := m.members[rec.BrokerID]
	if !ok || r.epoch != rec.BrokerEpoch {
		return fmt.Errorf("change of broker %d with epoch %d, it has %d", rec.BrokerID, rec.BrokerEpoch, r.epoch)
	}
	switch rec.Fenced {
	case metarecord.Set:
		r.fenced = true
	case metarecord.Unset:
		r.fenced = false
	}
	r.leaving = r.leaving || rec.InControlledShutdown == metarecord.Set
	m.setMember(rec.BrokerID, r)
	return nil
}

// setMember replaces the map, which others read without a lock.
func (m *image) setMember(id int32, r member) {
	members := maps.Clone(m.members)
	members[id] = r
	m.members = members
}

// serving returns the brokers that are not fenced, by id.
func (m *image) serving() []int32 {
	var ids []int32
	for id, r := range m.members {
		if !r.fenced {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// alive describes the brokers that are not fenced, by id.
func (m *image) alive() []Broker {
	ids := m.serving()
	brokers := make([]Broker, len(ids))
	for i, id := range ids {
		brokers[i] = Broker{ID: id, Rack: m.members[id].rack}
	}
	return brokers
}

// fenced describes the brokers that are members but do not serve, by id.
func (m *image) fenced() (brokers []Broker) {
	for id, r := range m.members {
		if r.fenced {
			brokers = append(brokers, Broker{ID: id, Rack: r.rack})
		}
	}
	slices.SortFunc(brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	return brokers
}

// leave returns the record with which a broker begins to leave in order.
func (m *image) leave(id int32) metarecord.Record {
	return &metarecord.BrokerChange{BrokerID: id, BrokerEpoch: m.members[id].epoch, InControlledShutdown: metarecord.Set}
}

// unregister returns the record with which a broker is no member any more.
func (m *image) unregister(id int32) metarecord.Record {
	return &metarecord.UnregisterBroker{BrokerID: id, BrokerEpoch: m.members[id].epoch}
}

// arrival is a broker that starts.
type arrival struct {
	id                     int32
	incarnation, directory metarecord.ID
	rack                   string
}

// register returns the record with which a broker serves from now on, in a new incarnation. Its
// epoch is the offset of the record, as in Kafka: it grows, also over restarts.
func (m *image) register(all ...arrival) (recs []metarecord.Record) {
	return m.registerAt(m.version, all)
}

// registerAt is register of records that begin at an offset.
func (m *image) registerAt(offset int64, all []arrival) (recs []metarecord.Record) {
	for i, a := range all {
		rec := &metarecord.RegisterBroker{
			BrokerID: a.id, IncarnationID: a.incarnation, BrokerEpoch: offset + int64(i),
			Directories: []metarecord.ID{a.directory},
		}
		if a.rack != "" {
			rec.Rack = &a.rack
		}
		recs = append(recs, rec)
	}
	return recs
}

// takeOver returns the records with which a controller begins: those brokers serve from now on, and
// all others are fenced. A log that an older version has written is brought to the level of this one.
func (m *image) takeOver(up []arrival) []metarecord.Record {
	recs := m.upgrade()
	recs = append(recs, m.registerAt(m.version+int64(len(recs)), up)...)
	for _, id := range slices.Sorted(maps.Keys(m.members)) {
		serves := slices.ContainsFunc(up, func(a arrival) bool { return a.id == id })
		if r := m.members[id]; !serves && !r.fenced {
			recs = append(recs, &metarecord.BrokerChange{BrokerID: id, BrokerEpoch: r.epoch, Fenced: metarecord.Set})
		}
	}
	return recs
}

// fence returns the records that fence brokers. They are written behind the records in before,
// which the image does not contain yet.
func (m *image) fence(brokers []int32, before []metarecord.Record) (recs []metarecord.Record) {
	for _, id := range brokers {
		rec := &metarecord.BrokerChange{BrokerID: id, BrokerEpoch: m.members[id].epoch, Fenced: metarecord.Set}
		for _, b := range before {
			if r, ok := b.(*metarecord.RegisterBroker); ok && r.BrokerID == id {
				rec.BrokerEpoch = r.BrokerEpoch
			}
		}
		recs = append(recs, rec)
	}
	return recs
}

// replicasOn returns the partitions that have a replica on a broker, by topic and number.
func (m *image) replicasOn(id int32) (tps []record.TopicPartition) {
	for _, name := range slices.Sorted(maps.Keys(m.topics)) {
		for i, p := range m.topics[name].partitions {
			if slices.Contains(p.replicas, id) {
				tps = append(tps, record.TopicPartition{Topic: name, Partition: int32(i)})
			}
		}
	}
	return tps
}

// relead returns the records that bring the leaders of partitions in line with which brokers serve:
// one whose leader is fenced has none from now on, one without a leader is led by the first broker
// of its in-sync replicas that serves. They also say which directories the replicas are in, where the
// metadata does not, or names one that was replaced. There are at most limit of them; the last call
// returns none.
func (m *image) relead(limit int) []metarecord.Record {
	serves := map[int32]bool{-1: false}
	for _, id := range m.serving() {
		serves[id] = !m.members[id].leaving
	}
	var recs []metarecord.Record
	for _, name := range slices.Sorted(maps.Keys(m.topics)) {
		t := m.topics[name]
		for i, p := range t.partitions {
			leader := int32(-1)
			if at := slices.IndexFunc(p.isr, func(id int32) bool { return serves[id] }); at >= 0 {
				leader = p.isr[at]
			}
			if serves[p.leader] || leader == p.leader {
				leader = metarecord.NoChange
			}
			moved := m.moved(p)
			if leader == metarecord.NoChange && moved == nil {
				continue
			}
			recs = append(recs, &metarecord.PartitionChange{Partition: int32(i), TopicID: t.id, Leader: leader, Recovery: -1, Directories: moved})
			if len(recs) == limit {
				return recs
			}
		}
	}
	return recs
}

// directoriesOf returns the directories of replicas; unassigned for those of unknown brokers.
func (m *image) directoriesOf(replicas []int32) []metarecord.ID {
	ids := make([]metarecord.ID, len(replicas))
	for i, id := range replicas {
		ids[i] = m.members[id].directory
	}
	return ids
}

// moved returns the directories of a partition's replicas, nil if they are those that it has. Of a
// broker that is no member any more, the directory that it had stays.
func (m *image) moved(p partitionImage) []metarecord.ID {
	ids := m.directoriesOf(p.replicas)
	for i := range ids {
		if ids[i] == (metarecord.ID{}) && p.directories != nil {
			ids[i] = p.directories[i]
		}
	}
	if slices.Equal(ids, p.directories) {
		return nil
	}
	return ids
}

// registrations returns the records that make the members out of nothing.
func (m *image) registrations() []metarecord.Record {
	var recs []metarecord.Record
	for _, id := range slices.Sorted(maps.Keys(m.members)) {
		r := m.members[id]
		rec := &metarecord.RegisterBroker{
			BrokerID: id, IncarnationID: r.incarnation, BrokerEpoch: r.epoch, Fenced: r.fenced, InControlledShutdown: r.leaving,
			Directories: []metarecord.ID{r.directory},
		}
		if r.rack != "" {
			rec.Rack = &r.rack
		}
		recs = append(recs, rec)
	}
	return recs
}
