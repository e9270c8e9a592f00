package image

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
)

// metadataVersion is the feature whose level says which versions of records the metadata log holds.
// Kafka's tools read no log without it.
const metadataVersion = "metadata.version"

// metadataLevel is 4.2-IV1: the newest level whose records are all of versions that package
// metarecord writes. Kafka: MetadataVersion.
const metadataLevel int16 = MetadataLevel

// MetadataLevel is the level of metadata.version that this version writes.
const MetadataLevel = 29

// eligibleReplicas is the feature by which a partition whose last replica in sync leaves has nobody
// in sync: who may lead is eligible then (KIP-966). New clusters have it, as in Kafka since 4.1.
// Without it the one replica of a partition stays in sync, whatever becomes of its broker; several
// replicas go by it in any case, since no cluster had them before.
const eligibleReplicas = "eligible.leader.replicas.version"

// TransactionVersion is the feature that determines how the transaction coordinator writes its
// records and ends transactions (KIP-890). A cluster has it from its first transactional id on.
const TransactionVersion = "transaction.version"

// newest are the levels of features that this version knows.
var newest = map[string]int16{metadataVersion: metadataLevel, eligibleReplicas: 1, TransactionVersion: 2}

// FeatureLevel returns the level of a feature, 0 if the log has no record of it.
func (m *Image) FeatureLevel(name string) int16 { return m.features[name] }

// SetFeatureLevel returns the records that set a feature to a level, 0 to the newest known one.
func (m *Image) SetFeatureLevel(name string, level int16) ([]metarecord.Record, error) {
	switch {
	case level < 0 || level > newest[name]:
		return nil, fmt.Errorf("feature %q has no level %d here, but 0 to %d", name, level, newest[name])
	case m.features[name] == level:
		return nil, nil
	}
	return []metarecord.Record{&metarecord.FeatureLevel{Name: name, Level: level}}, nil
}

// EligibleReplicas reports whether the cluster has Kafka's eligible.leader.replicas.version.
func (m *Image) EligibleReplicas() bool { return m.features[eligibleReplicas] > 0 }

// applyFeatureLevel refuses what this version does not know: going on would misread what follows.
func (m *Image) applyFeatureLevel(rec *metarecord.FeatureLevel) error {
	switch {
	case rec.Level < 0:
		return fmt.Errorf("feature %q at level %d", rec.Name, rec.Level)
	case rec.Level > newest[rec.Name]:
		return fmt.Errorf("%w: feature %q at level %d", ErrLaterRecord, rec.Name, rec.Level)
	}
	features := maps.Clone(m.features)
	if features[rec.Name] = rec.Level; rec.Level == 0 {
		delete(features, rec.Name)
	}
	m.features = features
	return nil
}

// featureLevels returns the records that make the features out of nothing.
func (m *Image) featureLevels() (recs []metarecord.Record) {
	if level := m.features[metadataVersion]; level > 0 { // before anything that it is about
		recs = append(recs, &metarecord.FeatureLevel{Name: metadataVersion, Level: level})
	}
	for _, name := range slices.Sorted(maps.Keys(m.features)) {
		if name != metadataVersion {
			recs = append(recs, &metarecord.FeatureLevel{Name: name, Level: m.features[name]})
		}
	}
	return recs
}

// upgrade returns the records that bring a log to the level that is written from now on. Other
// features are those of new clusters only: what an old one does by them would change.
func (m *Image) upgrade() (recs []metarecord.Record) {
	created := m.Version == 0 && m.features[metadataVersion] == 0
	if m.features[metadataVersion] < metadataLevel {
		recs = append(recs, &metarecord.FeatureLevel{Name: metadataVersion, Level: metadataLevel})
	}
	if created {
		recs = append(recs, &metarecord.FeatureLevel{Name: eligibleReplicas, Level: newest[eligibleReplicas]})
	}
	return recs
}
