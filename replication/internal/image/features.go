package image

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
)

// metadataVersion is the feature whose level determines the versions of the records in the
// metadata log. Kafka's tools read no log without it.
const metadataVersion = "metadata.version"

// metadataLevel is 4.2-IV1: the newest level whose records are all of versions that package
// metarecord writes. Kafka: MetadataVersion.
const metadataLevel int16 = MetadataLevel

// MetadataLevel is the level of metadata.version that this version writes.
const MetadataLevel = 29

// eligibleReplicas is the feature that lets the last replica leave the ISR of a partition:
// replicas that may lead are then eligible (KIP-966). New clusters have it, as in Kafka since 4.1.
// Without it the only replica of a partition stays in sync, even if its broker is fenced.
// Partitions with several replicas follow it in any case, since no cluster without the feature had
// them.
const eligibleReplicas = "eligible.leader.replicas.version"

// TransactionVersion is the feature that determines how the transaction coordinator writes its
// records and ends transactions (KIP-890). A cluster has it from its first transactional id on.
const TransactionVersion = "transaction.version"

// newest has the newest level of each feature that this version supports.
var newest = map[string]int16{metadataVersion: metadataLevel, eligibleReplicas: 1, TransactionVersion: 2}

// FeatureLevel returns the level of a feature, 0 if the log has no record of it.
func (m *Image) FeatureLevel(name string) int16 { return m.features[name] }

// SetFeatureLevel returns the records that set a feature to a level: 0, which removes it, to the
// newest supported one.
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

// applyFeatureLevel rejects unknown features and levels: later records could be misread otherwise.
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

// featureLevels returns the records that set the features in an empty image.
func (m *Image) featureLevels() (recs []metarecord.Record) {
	if level := m.features[metadataVersion]; level > 0 { // first: it determines versions
		recs = append(recs, &metarecord.FeatureLevel{Name: metadataVersion, Level: level})
	}
	for _, name := range slices.Sorted(maps.Keys(m.features)) {
		if name != metadataVersion {
			recs = append(recs, &metarecord.FeatureLevel{Name: name, Level: m.features[name]})
		}
	}
	return recs
}

// upgrade returns the records that raise a log to the level that is written from now on. Other
// features are set only in a new cluster: they would change the behaviour of an old one.
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
