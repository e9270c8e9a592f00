package image

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
)

// A Member is the metadata of one broker of the cluster. It is immutable once published.
type Member struct {
	Incarnation metarecord.ID // a random id for each start of the broker
	Epoch       int64         // grows with every incarnation; Kafka: broker epoch
	Directory   metarecord.ID // of its meta.properties: a replaced disk has another
	Rack        string
	Fenced      bool // it does not serve; its partitions have no leader
	Leaving     bool // it is about to be fenced: it leads no partition and gets no new one. Kafka: in controlled shutdown
}

// applyRegisterBroker begins an incarnation of a broker.
func (m *Image) applyRegisterBroker(rec *metarecord.RegisterBroker) error {
	if had, ok := m.Members[rec.BrokerID]; ok && rec.BrokerEpoch <= had.Epoch {
		return fmt.Errorf("broker %d registers with epoch %d, it had %d", rec.BrokerID, rec.BrokerEpoch, had.Epoch)
	}
	r := Member{Incarnation: rec.IncarnationID, Epoch: rec.BrokerEpoch, Fenced: rec.Fenced, Leaving: rec.InControlledShutdown}
	if len(rec.Directories) > 0 {
		r.Directory = rec.Directories[0]
	}
	if rec.Rack != nil {
		r.Rack = *rec.Rack
	}
	m.setMember(rec.BrokerID, r)
	return nil
}

func (m *Image) applyUnregisterBroker(rec *metarecord.UnregisterBroker) error {
	if r, ok := m.Members[rec.BrokerID]; !ok || r.Epoch != rec.BrokerEpoch {
		return fmt.Errorf("removal of broker %d with epoch %d, it has %d", rec.BrokerID, rec.BrokerEpoch, r.Epoch)
	}
	members := maps.Clone(m.Members)
	delete(members, rec.BrokerID)
	m.Members = members
	return nil
}

func (m *Image) applyBrokerChange(rec *metarecord.BrokerChange) error {
	r, ok := m.Members[rec.BrokerID]
	if !ok || r.Epoch != rec.BrokerEpoch {
		return fmt.Errorf("change of broker %d with epoch %d, it has %d", rec.BrokerID, rec.BrokerEpoch, r.Epoch)
	}
	switch rec.Fenced {
	case metarecord.Set:
		r.Fenced = true
	case metarecord.Unset:
		r.Fenced = false
	}
	r.Leaving = r.Leaving || rec.InControlledShutdown == metarecord.Set
	m.setMember(rec.BrokerID, r)
	return nil
}

// setMember replaces the map, which readers use without a lock.
func (m *Image) setMember(id int32, r Member) {
	members := maps.Clone(m.Members)
	members[id] = r
	m.Members = members
}

// Serving returns the brokers that are not fenced, by id.
func (m *Image) Serving() []int32 {
	var ids []int32
	for id, r := range m.Members {
		if !r.Fenced {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Leave returns the record with which a broker begins to shut down in order.
func (m *Image) Leave(id int32) metarecord.Record {
	return &metarecord.BrokerChange{BrokerID: id, BrokerEpoch: m.Members[id].Epoch, InControlledShutdown: metarecord.Set}
}

// Unregister returns the record that ends a broker's membership.
func (m *Image) Unregister(id int32) metarecord.Record {
	return &metarecord.UnregisterBroker{BrokerID: id, BrokerEpoch: m.Members[id].Epoch}
}

// An Arrival is a broker that starts.
type Arrival struct {
	ID                     int32
	Incarnation, Directory metarecord.ID
	Rack                   string
	// Clean means that no data is lost that the broker had written before it was started.
	Clean bool
	// Missing has the partitions whose directories are missing. Found has partitions that were missing
	// before, and whose logs are open.
	Missing, Found []Place
	// Offline has the partitions with several replicas that the broker has and cannot open.
	Offline []Place
}

// Register returns the record with which a broker serves from now on, in a new incarnation. Its
// epoch is the offset of the record, as in Kafka: it grows, also over restarts.
func (m *Image) Register(all ...Arrival) (recs []metarecord.Record) {
	return m.registerAt(m.Version, all)
}

// registerAt is Register for records that begin at an offset.
func (m *Image) registerAt(offset int64, all []Arrival) (recs []metarecord.Record) {
	for i, a := range all {
		rec := &metarecord.RegisterBroker{
			BrokerID: a.ID, IncarnationID: a.Incarnation, BrokerEpoch: offset + int64(i),
			Directories: []metarecord.ID{a.Directory},
		}
		if a.Rack != "" {
			rec.Rack = &a.Rack
		}
		recs = append(recs, rec)
	}
	return recs
}

// TakeOver returns the first records of a controller: the brokers in up serve from now on, and all
// others are fenced. A log of an older version is upgraded to the level of this one. Consequences
// for partitions with several replicas are part of the change: a reader of the record that a broker
// was started again also reads which partitions it may have lost.
func (m *Image) TakeOver(up []Arrival, policy Policy) []metarecord.Record {
	recs := m.attendance(up)
	return append(recs, m.after(recs).restart(up, policy)...)
}

// Resume is TakeOver where the brokers in up have served all along. The brokers in started have
// not. Their end could not be recorded, so the partitions that they lead get another leader epoch.
func (m *Image) Resume(up, started []Arrival, policy Policy) []metarecord.Record {
	recs := m.attendance(slices.Concat(up, started))
	if len(started) == 0 {
		return recs
	}
	recs = append(recs, m.after(recs).restart(started, policy)...)
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		t := m.Topics[name]
		for i, p := range t.Partitions {
			if len(p.Replicas) == 1 && slices.ContainsFunc(started, func(a Arrival) bool { return a.ID == p.Leader }) {
				recs = append(recs, BeginEpoch(t.ID, int32(i), p.Leader))
			}
		}
	}
	return recs
}

// attendance returns the records that make exactly these brokers serve.
func (m *Image) attendance(up []Arrival) []metarecord.Record {
	recs := m.upgrade()
	recs = append(recs, m.registerAt(m.Version+int64(len(recs)), up)...)
	for _, id := range slices.Sorted(maps.Keys(m.Members)) {
		serves := slices.ContainsFunc(up, func(a Arrival) bool { return a.ID == id })
		if r := m.Members[id]; !serves && !r.Fenced {
			recs = append(recs, &metarecord.BrokerChange{BrokerID: id, BrokerEpoch: r.Epoch, Fenced: metarecord.Set})
		}
	}
	return recs
}

// after returns the image after changes of brokers, features and broker configurations. m is
// unchanged, since these changes replace maps.
func (m *Image) after(recs []metarecord.Record) *Image {
	later := *m
	for _, rec := range recs {
		_ = later.Apply(rec) // the caller that applies the change gets the error
	}
	return &later
}

// Fence returns the records that fence brokers. They are written after the records in before, which
// the image does not contain yet.
func (m *Image) Fence(brokers []int32, before []metarecord.Record) (recs []metarecord.Record) {
	for _, id := range brokers {
		rec := &metarecord.BrokerChange{BrokerID: id, BrokerEpoch: m.Members[id].Epoch, Fenced: metarecord.Set}
		for _, b := range before {
			if r, ok := b.(*metarecord.RegisterBroker); ok && r.BrokerID == id {
				rec.BrokerEpoch = r.BrokerEpoch
			}
		}
		recs = append(recs, rec)
	}
	return recs
}

// ReplicasOn returns the partitions that have a replica on a broker, by topic and number.
func (m *Image) ReplicasOn(id int32) (tps []record.TopicPartition) {
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		for i, p := range m.Topics[name].Partitions {
			if slices.Contains(p.Replicas, id) {
				tps = append(tps, record.TopicPartition{Topic: name, Partition: int32(i)})
			}
		}
	}
	return tps
}

// directoriesOf returns the directories of replicas; zero for replicas of unknown brokers.
func (m *Image) directoriesOf(replicas []int32) []metarecord.ID {
	ids := make([]metarecord.ID, len(replicas))
	for i, id := range replicas {
		ids[i] = m.Members[id].Directory
	}
	return ids
}

// registrations returns the records that register the members in an empty image.
func (m *Image) registrations() []metarecord.Record {
	var recs []metarecord.Record
	for _, id := range slices.Sorted(maps.Keys(m.Members)) {
		r := m.Members[id]
		rec := &metarecord.RegisterBroker{
			BrokerID: id, IncarnationID: r.Incarnation, BrokerEpoch: r.Epoch, Fenced: r.Fenced, InControlledShutdown: r.Leaving,
			Directories: []metarecord.ID{r.Directory},
		}
		if r.Rack != "" {
			rec.Rack = &r.Rack
		}
		recs = append(recs, rec)
	}
	return recs
}
