package metalog

import (
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// changesSet reports whether a change names the copies that are in sync, even if they are the same
// as before. A snapshot only repeats a set that was committed earlier.
func changesSet(recs []metarecord.Record) bool {
	return !image.IsSnapshot(recs[0]) && slices.ContainsFunc(recs, func(rec metarecord.Record) bool {
		switch rec := rec.(type) {
		case *metarecord.RegisterBroker:
			return true
		case *metarecord.BrokerChange:
			return rec.Fenced != metarecord.Unchanged
		}
		return false
	})
}

// setAfter returns the set of copies after a change.
func setAfter(set []int32, recs []metarecord.Record) []int32 {
	set = slices.Clone(set)
	for _, rec := range recs {
		switch rec := rec.(type) {
		case *metarecord.RegisterBroker:
			if !rec.Fenced && !slices.Contains(set, rec.BrokerID) {
				set = append(set, rec.BrokerID)
			}
		case *metarecord.BrokerChange:
			if rec.Fenced == metarecord.Set {
				set = slices.DeleteFunc(set, func(id int32) bool { return id == rec.BrokerID })
			}
		}
	}
	return set
}
