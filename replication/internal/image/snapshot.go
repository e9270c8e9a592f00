package image

import (
	"bytes"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// Snapshot returns the records that rebuild the image from an empty one. It has only those removed
// topics that are in kept.
func (m *Image) Snapshot(kept map[topic.ID]string) []metarecord.Record {
	recs := []metarecord.Record{&metarecord.NoOp{Snapshot: true}}
	recs = append(recs, m.featureLevels()...)
	for _, id := range slices.SortedFunc(maps.Keys(kept), func(a, b topic.ID) int { return bytes.Compare(a[:], b[:]) }) {
		recs = append(recs, &metarecord.Topic{Name: kept[id], ID: id}, &metarecord.RemoveTopic{ID: id})
	}
	recs = append(recs, m.registrations()...)
	if m.NextProducerID > 0 {
		recs = append(recs, &metarecord.ProducerIDs{BrokerID: m.producerIDBroker, BrokerEpoch: -1, Next: m.NextProducerID})
	}
	recs = append(recs, m.userRecords()...)
	recs = append(recs, m.accessRecords()...)
	recs = append(recs, m.quotaRecords()...)
	recs = append(recs, m.tokenRecords()...)
	for _, name := range slices.Sorted(maps.Keys(m.BrokerConfigs)) {
		recs = append(recs, ConfigRecords(metarecord.ResourceBroker, name, nil, m.BrokerConfigs[name])...)
	}
	recs = append(recs, m.namedRecords()...)
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		t := m.Topics[name]
		recs = append(recs, &metarecord.Topic{Name: t.Name, ID: t.ID})
		recs = append(recs, ConfigRecords(metarecord.ResourceTopic, t.Name, nil, t.Config)...)
		for i, p := range t.Partitions {
			recs = append(recs, p.record(i, t.ID))
		}
	}
	return recs
}

// IsSnapshot reports whether a record begins a snapshot.
func IsSnapshot(rec metarecord.Record) bool {
	n, ok := rec.(*metarecord.NoOp)
	return ok && n.Snapshot
}
