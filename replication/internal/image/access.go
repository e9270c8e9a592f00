package image

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/metarecord"
)

// Limits of the access control entries, which are in the memory of all brokers.
const (
	maxACLs     = 50_000
	maxACLBytes = 16 << 20 // of names, principals and hosts

	// maxACLsAtOnce is the number of entries that one request may create or remove. Kafka:
	// MAX_RECORDS_PER_USER_OP.
	maxACLsAtOnce = 10_000
)

// ACLs are the access control entries of the cluster.
type ACLs struct {
	byID  map[metarecord.ID]acl.Entry
	ids   map[acl.Entry]metarecord.ID
	bytes int // of their names, principals and hosts
}

func textBytes(e acl.Entry) int { return len(e.ResourceName) + len(e.Principal) + len(e.Host) }

// ownACLs returns the entries as a copy that may be changed until the next publish.
func (m *Image) ownACLs() *ACLs {
	if !m.ownsACLs {
		owned := ACLs{byID: map[metarecord.ID]acl.Entry{}, ids: map[acl.Entry]metarecord.ID{}}
		if m.acls != nil {
			owned = ACLs{maps.Clone(m.acls.byID), maps.Clone(m.acls.ids), m.acls.bytes}
		}
		m.acls, m.ownsACLs = &owned, true
	}
	return m.acls
}

func (m *Image) applyAccess(rec *metarecord.AccessControlEntry) error {
	e := acl.Entry{
		ResourceType: acl.ResourceType(rec.ResourceType), ResourceName: rec.ResourceName, PatternType: acl.PatternType(rec.PatternType),
		Principal: rec.Principal, Host: rec.Host, Operation: acl.Operation(rec.Operation), Permission: acl.Permission(rec.Permission),
	}
	if err := e.Validate(); err != nil {
		// for example an operation of a later version
		return fmt.Errorf("%w: access control entry: %w", ErrLaterRecord, err)
	}
	if m.acls != nil {
		if _, known := m.acls.byID[rec.ID]; known {
			return fmt.Errorf("access control entry %x is there already", rec.ID)
		}
		if _, known := m.acls.ids[e]; known {
			return fmt.Errorf("access control entry %v is there already", e)
		}
	}
	a := m.ownACLs()
	a.byID[rec.ID], a.ids[e] = e, rec.ID
	a.bytes += textBytes(e)
	return nil
}

func (m *Image) applyRemoveAccess(rec *metarecord.RemoveAccessControlEntry) error {
	if m.acls == nil || m.acls.byID[rec.ID] == (acl.Entry{}) {
		return fmt.Errorf("removal of unknown access control entry %x", rec.ID)
	}
	a := m.ownACLs()
	e := a.byID[rec.ID]
	delete(a.byID, rec.ID)
	delete(a.ids, e)
	a.bytes -= textBytes(e)
	if len(a.byID) == 0 {
		m.acls, m.ownsACLs = nil, false
	}
	return nil
}

// AccessControl returns the access control entries, or nil if there are none. Two images return the
// same value only if their entries are equal, and as a rule do so then. A published value does not
// change.
func (m *Image) AccessControl() *ACLs { return m.acls }

// All returns the entries, in any order. It may be called on nil.
func (a *ACLs) All() iter.Seq[acl.Entry] {
	return func(yield func(acl.Entry) bool) {
		if a == nil {
			return
		}
		for e := range a.ids {
			if !yield(e) {
				return
			}
		}
	}
}

// CreateACLs returns the records that create access control entries, which must be valid, with ids
// from next. Existing entries are not changed. A *PolicyError rejects more entries than a cluster,
// or a request, may have.
func (m *Image) CreateACLs(entries []acl.Entry, next func() metarecord.ID) (recs []metarecord.Record, err error) {
	size, count, made := 0, 0, map[acl.Entry]bool{}
	if m.acls != nil {
		size, count = m.acls.bytes, len(m.acls.byID)
	}
	for _, e := range entries {
		if made[e] {
			continue
		}
		if m.acls != nil {
			if _, known := m.acls.ids[e]; known {
				continue
			}
		}
		made[e] = true
		size += textBytes(e)
		recs = append(recs, accessRecord(next(), e))
	}
	switch {
	case len(recs) > maxACLsAtOnce:
		return nil, policy("Unable to perform excessively large batch operation.")
	case count+len(recs) > maxACLs:
		return nil, policy("a cluster has at most %d access control entries", maxACLs)
	case size > maxACLBytes:
		return nil, policy("the access control entries of a cluster have at most %d bytes of names", maxACLBytes)
	}
	return recs, nil
}

// DeleteACLs returns the records that delete the entries matching any of the filters, and the
// matches of each filter, in the order of Entry.Compare. A *PolicyError rejects the deletion of too
// many at once.
func (m *Image) DeleteACLs(filters []acl.Filter) (recs []metarecord.Record, found [][]acl.Entry, err error) {
	found = make([][]acl.Entry, len(filters))
	if m.acls == nil {
		return nil, found, nil
	}
	gone := map[acl.Entry]bool{}
	for i, f := range filters {
		for e := range m.acls.ids {
			if f.Matches(e) {
				found[i] = append(found[i], e)
				gone[e] = true
			}
		}
		if len(gone) > maxACLsAtOnce {
			return nil, nil, policy("Cannot remove more than %d acls in a single delete operation.", maxACLsAtOnce)
		}
		slices.SortFunc(found[i], acl.Entry.Compare)
	}
	for _, e := range slices.SortedFunc(maps.Keys(gone), acl.Entry.Compare) {
		recs = append(recs, &metarecord.RemoveAccessControlEntry{ID: m.acls.ids[e]})
	}
	return recs, found, nil
}

// accessRecords returns the records that create the entries in an empty image, by their ids.
func (m *Image) accessRecords() (recs []metarecord.Record) {
	if m.acls == nil {
		return nil
	}
	for _, id := range slices.SortedFunc(maps.Keys(m.acls.byID), func(a, b metarecord.ID) int { return bytes.Compare(a[:], b[:]) }) {
		recs = append(recs, accessRecord(id, m.acls.byID[id]))
	}
	return recs
}

func accessRecord(id metarecord.ID, e acl.Entry) metarecord.Record {
	return &metarecord.AccessControlEntry{
		ID: id, ResourceType: int8(e.ResourceType), ResourceName: e.ResourceName, PatternType: int8(e.PatternType),
		Principal: e.Principal, Host: e.Host, Operation: int8(e.Operation), Permission: int8(e.Permission),
	}
}
