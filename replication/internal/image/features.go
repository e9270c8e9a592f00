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
const metadataLevel int16 = 29

// applyFeatureLevel refuses what this version does not know: going on would misread what follows.
func (m *Image) applyFeatureLevel(rec *metarecord.FeatureLevel) error {
	switch {
	case rec.Level < 0:
		return fmt.Errorf("feature %q at level %d", rec.Name, rec.Level)
	case rec.Level > 0 && (rec.Name != metadataVersion || rec.Level > metadataLevel):
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
	for _, name := range slices.Sorted(maps.Keys(m.features)) {
		recs = append(recs, &metarecord.FeatureLevel{Name: name, Level: m.features[name]})
	}
	return recs
}

// upgrade returns the records that bring a log to the level that is written from now on.
func (m *Image) upgrade() (recs []metarecord.Record) {
	if m.features[metadataVersion] < metadataLevel {
		recs = append(recs, &metarecord.FeatureLevel{Name: metadataVersion, Level: metadataLevel})
	}
	return recs
}
