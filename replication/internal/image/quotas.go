package image

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/metarecord"
)

// Limits of the quotas, which are in the memory of all brokers.
const (
	maxQuotas     = 50_000
	maxQuotaBytes = 16 << 20 // of names

	// maxQuotasAtOnce is the number of quotas that one request may change. Kafka:
	// MAX_RECORDS_PER_USER_OP.
	maxQuotasAtOnce = 10_000
)

// ErrInvalidQuota is matched by every QuotaError.
var ErrInvalidQuota = errors.New("invalid client quota")

// A QuotaError rejects a change of an entity's quotas, with Kafka's message.
type QuotaError struct{ Text string }

func (e *QuotaError) Error() string { return e.Text }

// Unwrap returns ErrInvalidQuota.
func (e *QuotaError) Unwrap() error { return ErrInvalidQuota }

// Quotas returns the client quotas, or nil if there are none. A published value does not change.
func (m *Image) Quotas() *clientquota.Set { return m.quotas }

func (m *Image) ownQuotas() *clientquota.Set {
	if !m.ownsQuotas {
		m.quotas, m.ownsQuotas = m.quotas.Clone(), true
	}
	return m.quotas
}

func (m *Image) applyQuota(rec *metarecord.ClientQuota) error {
	e, err := clientquota.EntityOf(rec)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLaterRecord, err) // for example a type of a later version
	}
	k := clientquota.Key(rec.Key)
	if rec.Remove {
		if _, ok := m.quotas.Get(e, k); !ok {
			return fmt.Errorf("removal of the unknown quota %s of %v", k, e)
		}
		if m.ownQuotas().Remove(e, k); m.quotas.Size().Values == 0 {
			m.quotas, m.ownsQuotas = nil, false
		}
		return nil
	}
	if why := e.CheckValue(k, rec.Value); why != "" { // for example a key of a later version
		return fmt.Errorf("%w: quota of %v: %s", ErrLaterRecord, e, why)
	}
	m.ownQuotas().Put(e, k, rec.Value)
	return nil
}

// quotaRecords returns the records that set the quotas in an empty image.
func (m *Image) quotaRecords() (recs []metarecord.Record) {
	for q := range m.quotas.All() {
		recs = append(recs, q.Record())
	}
	return recs
}

// A QuotaChange changes quotas of one entity: all of Changes or none.
type QuotaChange struct {
	Entity  clientquota.Entity
	Changes []QuotaValue
}

// A QuotaValue sets or removes one quota, which need not exist.
type QuotaValue struct {
	Key    clientquota.Key
	Value  float64
	Remove bool
}

// AlterQuotas returns the records of changes, and the errors of rejected changes by entity. If an
// entity occurs twice, its first change is made, if it is valid, and refused has the entity all the
// same. A key that occurs twice in a change rejects the change. A *PolicyError rejects more than a
// cluster, or a request, may have. Kafka: ClientQuotaControlManager.alterClientQuotas.
func (m *Image) AlterQuotas(changes []QuotaChange) (recs []metarecord.Record, refused map[clientquota.Entity]error, err error) {
	refused = map[clientquota.Entity]error{}
	seen := map[clientquota.Entity]bool{}
	size := m.quotas.Size()
	for _, c := range changes {
		values := map[clientquota.Key]QuotaValue{}
		for _, v := range c.Changes {
			values[v.Key] = v
		}
		if seen[c.Entity] || len(values) < len(c.Changes) {
			refused[c.Entity] = &QuotaError{fmt.Sprintf("Ignoring duplicate entity ClientQuotaEntity(entries=%v)", c.Entity)}
			continue
		}
		seen[c.Entity] = true
		made, why := m.alterQuotas(c.Entity, values)
		if why != "" {
			refused[c.Entity] = &QuotaError{why}
			continue
		}
		for _, rec := range made {
			switch _, had := m.quotas.Get(c.Entity, clientquota.Key(rec.Key)); {
			case rec.Remove:
				size = size.Plus(-1, -c.Entity.TextBytes())
			case !had:
				size = size.Plus(1, c.Entity.TextBytes())
			}
			recs = append(recs, rec)
		}
	}
	switch had := m.quotas.Size(); {
	case len(recs) > maxQuotasAtOnce:
		return nil, nil, policy("Unable to perform excessively large batch operation.")
	case size.Values > max(maxQuotas, had.Values):
		return nil, nil, policy("a cluster has at most %d client quotas", maxQuotas)
	case size.Bytes > max(maxQuotaBytes, had.Bytes):
		return nil, nil, policy("the client quotas of a cluster have at most %d bytes of names", maxQuotaBytes)
	}
	return recs, refused, nil
}

// alterQuotas returns the records of one entity's changes, by keys, or why they are rejected.
func (m *Image) alterQuotas(e clientquota.Entity, values map[clientquota.Key]QuotaValue) (recs []*metarecord.ClientQuota, why string) {
	if why = e.Check(); why != "" {
		return nil, why
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		v := values[k]
		had, ok := m.quotas.Get(e, k)
		if !v.Remove {
			if why = e.CheckValue(k, v.Value); why != "" {
				return nil, why
			}
		}
		if v.Remove && !ok || !v.Remove && ok && had == v.Value {
			continue
		}
		rec := clientquota.Quota{Entity: e, Key: k, Value: v.Value}.Record()
		if v.Remove {
			rec.Value, rec.Remove = 0, true
		}
		recs = append(recs, rec)
	}
	return recs, ""
}
