package clientquota

import (
	"maps"
	"math"
	"net/netip"
	"time"
)

// A Client identifies a user of quotas by the principal's name and the client id, which may be
// empty.
type Client struct{ User, ID string }

// Limit returns the quota of a client, and the entity that shares it; ok is false if none applies.
// The most specific quota counts, in the order of Kafka's DefaultQuotaCallback. A default quota is
// for each user or client id alone.
func (s *Set) Limit(k Key, c Client) (shared Entity, limit float64, ok bool) {
	if s == nil || s.counts[k] == 0 {
		return Entity{}, 0, false
	}
	user, id := Named(c.User), Named(c.ID)
	for _, try := range [...]struct {
		of, shared Entity
		byID       bool // only clients with an id
	}{
		{Entity{User: user, ClientID: id}, Entity{User: user, ClientID: id}, true},
		{Entity{User: user, ClientID: Default}, Entity{User: user, ClientID: id}, false},
		{Entity{User: user}, Entity{User: user}, false},
		{Entity{User: Default, ClientID: id}, Entity{User: user, ClientID: id}, true},
		{Entity{User: Default, ClientID: Default}, Entity{User: user, ClientID: id}, false},
		{Entity{User: Default}, Entity{User: user}, false},
		{Entity{ClientID: id}, Entity{ClientID: id}, true},
		{Entity{ClientID: Default}, Entity{ClientID: id}, false},
	} {
		if try.byID && !id.Given() {
			continue
		}
		if limit, ok = s.quotas[try.of][k]; ok {
			return try.shared, limit, true
		}
	}
	return Entity{}, 0, false
}

// LimitOf returns the connection rate of an address, and the entity with it; ok is false if there
// is no limit. A default quota is for each address alone.
func (s *Set) LimitOf(host netip.Addr) (shared Entity, limit float64, ok bool) {
	if s == nil || s.counts[ConnectionCreationRate] == 0 {
		return Entity{}, 0, false
	}
	host = host.Unmap()
	if name, own := s.hosts[host]; own {
		e := Entity{IP: name}
		limit, ok = s.quotas[e][ConnectionCreationRate]
		return e, limit, ok
	}
	limit, ok = s.quotas[Entity{IP: Default}][ConnectionCreationRate]
	return Entity{IP: Named(host.String())}, limit, ok
}

// MostAtOnce returns the amount that a client may use at once, which is its quota over the whole
// window; +Inf without a quota. Kafka: ClientQuotaManager.maxValueInQuotaWindow.
func (s *Set) MostAtOnce(k Key, c Client) float64 {
	_, limit, ok := s.Limit(k, c)
	if !ok {
		return math.Inf(1)
	}
	return limit * (windows - 1) * windowMs / 1000
}

// maxMeters bounds the number of meters, usually of entities used in the last eleven seconds.
// Client ids are arbitrary; beyond the bound all others share one meter of each key.
const maxMeters = 16 << 10

// maxNames bounds the bytes of their names, which clients choose.
const maxNames = 4 << 20

// Meters measure the usage of entities in one broker. The zero value is ready. It is not safe for
// concurrent use.
type Meters struct {
	rates   map[meter]*rate
	buckets map[meter]*tokenBucket
	names   int   // bytes of names of these
	sweep   int   // number of meters from which idle ones are dropped
	swept   int64 // time of the last sweep
}

type meter struct {
	key    Key
	shared Entity
}

// size returns the bytes of a meter's names.
func (m meter) size() int {
	return len(m.shared.User.Name) + len(m.shared.ClientID.Name) + len(m.shared.IP.Name)
}

// Record adds usage of a quota by a client, negative to return some, and returns the throttle time;
// 0 if none. Kafka: ClientQuotaManager.recordAndGetThrottleTimeMs, and its bound for requests.
func (m *Meters) Record(now time.Time, s *Set, k Key, c Client, used float64) time.Duration {
	shared, limit, ok := s.Limit(k, c)
	if !ok {
		return 0
	}
	at := now.UnixMilli()
	r := m.rate(at, meter{k, shared})
	r.record(at, used)
	wait := r.throttle(at, limit)
	if k == RequestPercentage {
		wait = min(wait, windowMs*time.Millisecond)
	}
	return wait
}

// Connect records a connection from an address. If that is too many, it returns the time for which
// the connection is left unserved, before it is closed; it is not counted then. 0 means that it is
// served. Kafka: ConnectionQuotas.recordIpConnectionMaybeThrottle.
func (m *Meters) Connect(now time.Time, s *Set, host netip.Addr) time.Duration {
	shared, limit, ok := s.LimitOf(host)
	if !ok {
		return 0
	}
	at := now.UnixMilli()
	r := m.rate(at, meter{ConnectionCreationRate, shared})
	r.record(at, 1)
	wait := r.throttle(at, limit)
	if wait > 0 {
		r.record(at, -1)
	}
	return min(wait, windowMs*time.Millisecond)
}

// rate returns the rate of a meter, which it makes if there is none.
func (m *Meters) rate(now int64, of meter) *rate {
	of = m.room(now, of)
	r := m.rates[of]
	if r == nil {
		r = new(rate)
		m.rates[of] = r
	}
	return r
}

// Mutations selects the treatment of changes beyond ControllerMutationRate.
type Mutations uint8

const (
	Permissive Mutations = iota // the change is made, and the client throttled
	Strict                      // the change is rejected while tokens are owed
)

// Mutate records changes of partitions by a client, and returns the throttle time; ok is false if
// the change must be rejected. Kafka: StrictControllerMutationQuota,
// PermissiveControllerMutationQuota.
func (m *Meters) Mutate(now time.Time, s *Set, c Client, partitions int, how Mutations) (wait time.Duration, ok bool) {
	shared, limit, bounded := s.Limit(ControllerMutationRate, c)
	if !bounded {
		return 0, true
	}
	at := now.UnixMilli()
	of := m.room(at, meter{ControllerMutationRate, shared})
	b := m.buckets[of]
	if b == nil {
		b = &tokenBucket{tokens: math.Inf(1), filled: at}
		m.buckets[of] = b
	}
	if b.refill(at, limit); how == Strict && b.tokens < 0 {
		return b.wait(limit), false
	}
	b.tokens -= float64(partitions)
	if how == Strict {
		return 0, true
	}
	return b.wait(limit), true
}

// room returns the meter to use for of. From time to time it drops idle meters, at little cost per
// use.
func (m *Meters) room(now int64, of meter) meter {
	if m.rates == nil {
		m.rates, m.buckets, m.sweep = map[meter]*rate{}, map[meter]*tokenBucket{}, 64
	}
	if m.rates[of] != nil || m.buckets[of] != nil {
		return of
	}
	if full := m.names+of.size() > maxNames; (full || len(m.rates)+len(m.buckets) >= m.sweep) && now-m.swept >= windowMs {
		m.swept = now
		maps.DeleteFunc(m.rates, func(of meter, r *rate) bool { return m.drops(of, r.idle(now)) })
		maps.DeleteFunc(m.buckets, func(of meter, b *tokenBucket) bool {
			const refilled = 11 * windowMs // from an empty bucket
			return m.drops(of, b.tokens >= 0 && now-b.filled >= refilled)
		})
		m.sweep = min(max(2*(len(m.rates)+len(m.buckets)), 64), maxMeters)
	}
	if len(m.rates)+len(m.buckets) >= maxMeters || m.names+of.size() > maxNames {
		of.shared = Entity{}
	}
	m.names += of.size()
	return of
}

// drops returns idle, and subtracts the names of a meter that is dropped.
func (m *Meters) drops(of meter, idle bool) bool {
	if idle {
		m.names -= of.size()
	}
	return idle
}
