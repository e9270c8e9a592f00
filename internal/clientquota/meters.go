package clientquota

import (
	"maps"
	"math"
	"net/netip"
	"time"
)

// A Client is who uses something: the name of the principal, and what the client calls itself,
// which may be empty.
type Client struct{ User, ID string }

// Limit returns the quota that bounds a client, and the entity that shares it; false: nothing does.
// The quota that is more about this client counts, in the order of Kafka's DefaultQuotaCallback.
// Whoever has a default quota has it alone.
func (s *Set) Limit(k Key, c Client) (shared Entity, limit float64, ok bool) {
	if s == nil || s.counts[k] == 0 {
		return Entity{}, 0, false
	}
	user, id := Named(c.User), Named(c.ID)
	for _, try := range [...]struct {
		of, shared Entity
		byID       bool // only clients that have an id
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

// LimitOf returns how many connections a second an address may make, and the entity that has it;
// false: any number. Who has the default quota has it alone.
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

// MostAtOnce returns how much a client may use at once: what a rate is measured over, and no bound
// without a quota. Kafka: ClientQuotaManager.maxValueInQuotaWindow.
func (s *Set) MostAtOnce(k Key, c Client) float64 {
	_, limit, ok := s.Limit(k, c)
	if !ok {
		return math.Inf(1)
	}
	return limit * (windows - 1) * windowMs / 1000
}

// maxMeters bounds the entities that are measured at a time: those of the last eleven seconds, as a
// rule. Clients may call themselves anything; beyond it the others share one meter of each key.
const maxMeters = 16 << 10

// maxNames bounds the bytes of their names, which are as long as clients make them.
const maxNames = 4 << 20

// Meters measure what entities use, by one broker. The zero value is ready. It is not safe for
// concurrent use.
type Meters struct {
	rates   map[meter]*rate
	buckets map[meter]*tokenBucket
	names   int   // bytes of names of these
	sweep   int   // from how many meters on those that say nothing are dropped
	swept   int64 // when they were
}

type meter struct {
	key    Key
	shared Entity
}

// size is how many bytes of names a meter has.
func (m meter) size() int {
	return len(m.shared.User.Name) + len(m.shared.ClientID.Name) + len(m.shared.IP.Name)
}

// Record has a client use something of a quota, or give it back (a negative amount), and returns
// how long it has to wait for that; 0: not at all. Kafka:
// ClientQuotaManager.recordAndGetThrottleTimeMs, and its bound for requests.
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

// Connect has an address make a connection, and returns for how long it is not served, and then
// closed, if that is too many; it does not count then. 0: it is served. Kafka:
// ConnectionQuotas.recordIpConnectionMaybeThrottle.
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

// rate returns what measures a rate.
func (m *Meters) rate(now int64, of meter) *rate {
	of = m.room(now, of)
	r := m.rates[of]
	if r == nil {
		r = new(rate)
		m.rates[of] = r
	}
	return r
}

// Mutations says what becomes of a change that is beyond ControllerMutationRate.
type Mutations uint8

const (
	Permissive Mutations = iota // it is made, and the client has to wait
	Strict                      // it is not made while tokens are owed
)

// Mutate has a client change partitions, and returns how long it has to wait; false: the change
// must not be made. Kafka: StrictControllerMutationQuota, PermissiveControllerMutationQuota.
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

// room returns the meter to use in place of one, and drops those that say nothing any more now and
// then, so that doing so costs each use little.
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
			const refilled = 11 * windowMs // from nothing owed
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

// drops returns whether a meter goes, which it counts.
func (m *Meters) drops(of meter, idle bool) bool {
	if idle {
		m.names -= of.size()
	}
	return idle
}
