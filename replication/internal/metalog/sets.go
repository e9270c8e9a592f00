package metalog

import (
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// changesSet reports whether a change says which copies are in sync, be they the same as before. A
// snapshot says it of what was committed before.
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

// setAfter returns the set of copies that a change leads to.
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
