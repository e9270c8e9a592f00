package image

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/metarecord"
)

// Random changes are made to an image and to a map of quotas. Both agree, published quotas never
// change, and a snapshot restores all quotas.
func TestQuotasAgreeWithAMap(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	type slot struct {
		e clientquota.Entity
		k clientquota.Key
	}
	name := func() clientquota.Name {
		return []clientquota.Name{{}, clientquota.Default, clientquota.Named("a"), clientquota.Named("b")}[r.IntN(4)]
	}
	m, want := New(), map[slot]float64{}
	quotas := func(s *clientquota.Set) map[slot]float64 {
		got := map[slot]float64{}
		for q := range s.All() {
			got[slot{q.Entity, q.Key}] = q.Value
		}
		return got
	}
	for step := range 500 {
		before, had := m.Quotas(), quotas(m.Quotas())
		var changes []QuotaChange
		seen := map[clientquota.Entity]bool{}
		for range 1 + r.IntN(3) {
			c := QuotaChange{Entity: clientquota.Entity{User: name(), ClientID: name()}}
			for _, k := range []clientquota.Key{clientquota.ProducerByteRate, clientquota.RequestPercentage, clientquota.ConnectionCreationRate} {
				switch r.IntN(5) {
				case 0, 1:
					c.Changes = append(c.Changes, QuotaValue{Key: k, Remove: true})
				case 2:
					c.Changes = append(c.Changes, QuotaValue{Key: k, Value: float64(r.IntN(4))})
				}
			}
			changes = append(changes, c)
			ok := c.Entity != clientquota.Entity{} && !seen[c.Entity]
			seen[c.Entity] = true
			for _, v := range c.Changes {
				ok = ok && (v.Remove || v.Value > 0 && v.Key != clientquota.ConnectionCreationRate)
			}
			for _, v := range c.Changes {
				if ok && v.Remove {
					delete(want, slot{c.Entity, v.Key})
				} else if ok {
					want[slot{c.Entity, v.Key}] = v.Value
				}
			}
		}
		recs, _, err := m.AlterQuotas(changes)
		require.NoError(t, err)
		replayAll(t, m, recs)
		m.Publish(m.Version + 1)
		require.Equal(t, want, quotas(m.Quotas()), "seed %d, step %d", seed, step)
		require.Equal(t, len(want) == 0, m.Quotas() == nil)
		require.Equal(t, len(want), m.Quotas().Size().Values)
		require.Equal(t, had, quotas(before), "what was published has changed")
		require.Equal(t, len(recs) == 0, before == m.Quotas(), "seed %d, step %d", seed, step)
		again := New()
		replayAll(t, again, m.Snapshot(nil))
		again.Publish(m.Version)
		require.Equal(t, m, again)
	}
}

func TestRecordsOfQuotasThatDoNotFitAreRefused(t *testing.T) {
	m := New()
	user := metarecord.QuotaPart{Type: "user", Name: new(string)}
	*user.Name = "a"
	rec := func(key string, value float64, parts ...metarecord.QuotaPart) *metarecord.ClientQuota {
		return &metarecord.ClientQuota{Entity: parts, Key: key, Value: value}
	}
	later := map[string]*metarecord.ClientQuota{
		"type": rec("producer_byte_rate", 1, metarecord.QuotaPart{Type: "zone"}), "key": rec("zone_rate", 1, user), "value": rec("producer_byte_rate", math.NaN(), user),
		"no part": rec("producer_byte_rate", 1), "two users": rec("producer_byte_rate", 1, user, user), "no name": rec("producer_byte_rate", 1, metarecord.QuotaPart{Type: "user", Name: new(string)}),
		"address and user": rec("connection_creation_rate", 1, metarecord.QuotaPart{Type: "ip"}, user),
	}
	for name, rec := range later {
		require.ErrorIs(t, m.Apply(rec), ErrLaterRecord, name)
	}
	gone := rec("producer_byte_rate", 0, user)
	gone.Remove = true
	require.Error(t, m.Apply(gone))
	require.Nil(t, m.Quotas())
}

func TestQuotasAreBounded(t *testing.T) {
	m := New()
	many := func(from, n int) (changes []QuotaChange) {
		for i := range n {
			changes = append(changes, QuotaChange{clientquota.Entity{User: clientquota.Named(fmt.Sprint("u", from+i))}, []QuotaValue{{Key: clientquota.ProducerByteRate, Value: 1}}})
		}
		return changes
	}
	var refused *PolicyError
	_, _, err := m.AlterQuotas(many(0, maxQuotasAtOnce+1))
	require.ErrorAs(t, err, &refused)
	for from := 0; from < maxQuotas; from += maxQuotasAtOnce {
		recs, _, err := m.AlterQuotas(many(from, maxQuotasAtOnce))
		require.NoError(t, err)
		applyAll(t, m, recs...)
	}
	_, _, err = m.AlterQuotas(many(maxQuotas, 1))
	require.ErrorAs(t, err, &refused)
	change := many(0, 1)
	change[0].Changes[0].Value = 2
	_, _, err = m.AlterQuotas(change)
	require.NoError(t, err, "what is there can be changed")

	m, change = New(), many(0, 1)
	change[0].Entity.User.Name = string(make([]byte, maxQuotaBytes+1))
	_, _, err = m.AlterQuotas(change)
	require.ErrorAs(t, err, &refused)
}
