package clientquota

import (
	"bufio"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func setOf(quotas ...Quota) *Set {
	s := (*Set)(nil).Clone()
	for _, q := range quotas {
		s.Put(q.Entity, q.Key, q.Value)
	}
	return s
}

// testdata/rates.txt has the results of Kafka 4.3's Sensor, Rate, TokenBucket and their managers
// for the same amounts at the same times. "rate LIMIT" and "tokens LIMIT" begin a new meter, then
// "MS AMOUNT WAIT" follow.
func TestThrottleTimesAreKafkas(t *testing.T) {
	f, err := os.Open("testdata/rates.txt")
	require.NoError(t, err)
	defer f.Close()
	alice := Client{User: "alice"}
	var m *Meters
	var s *Set
	lines := 0
	for in := bufio.NewScanner(f); in.Scan(); lines++ {
		var kind string
		var limit float64
		if n, _ := fmt.Sscan(in.Text(), &kind, &limit); n == 2 && (kind == "rate" || kind == "tokens") {
			m, s = &Meters{}, setOf(Quota{Entity{User: Default}, ProducerByteRate, limit}, Quota{Entity{User: Default}, ControllerMutationRate, limit})
			continue
		}
		fields := strings.Fields(in.Text())
		var ms, want int64
		var used float64
		_, err := fmt.Sscan(fields[0]+" "+fields[1]+" "+fields[len(fields)-1], &ms, &used, &want)
		require.NoError(t, err)
		now := time.UnixMilli(ms)
		if len(fields) == 3 {
			require.Equal(t, want, m.Record(now, s, ProducerByteRate, alice, used).Milliseconds(), in.Text())
			continue
		}
		how := Permissive
		if fields[2] == "strict" {
			how = Strict
		}
		wait, ok := m.Mutate(now, s, alice, int(used), how)
		require.Equal(t, want, wait.Milliseconds(), in.Text())
		require.Equal(t, how == Permissive || want == 0, ok, in.Text())
	}
	require.Equal(t, 305, lines)
}

func TestTheQuotaThatIsMostAboutAClientCounts(t *testing.T) {
	user, id := Named("alice"), Named("app")
	levels := []struct{ of, shared Entity }{ // the lowest first
		{Entity{ClientID: Default}, Entity{ClientID: id}},
		{Entity{ClientID: id}, Entity{ClientID: id}},
		{Entity{User: Default}, Entity{User: user}},
		{Entity{User: Default, ClientID: Default}, Entity{User: user, ClientID: id}},
		{Entity{User: Default, ClientID: id}, Entity{User: user, ClientID: id}},
		{Entity{User: user}, Entity{User: user}},
		{Entity{User: user, ClientID: Default}, Entity{User: user, ClientID: id}},
		{Entity{User: user, ClientID: id}, Entity{User: user, ClientID: id}},
	}
	s := setOf(Quota{Entity{User: user, ClientID: id}, ConsumerByteRate, 99}, Quota{Entity{User: Named("bob")}, ProducerByteRate, 98})
	_, _, ok := s.Limit(ProducerByteRate, Client{"alice", "app"})
	require.False(t, ok)
	for i, level := range levels {
		s.Put(level.of, ProducerByteRate, float64(1+i))
		shared, limit, ok := s.Limit(ProducerByteRate, Client{"alice", "app"})
		require.True(t, ok)
		require.Equal(t, level.shared, shared)
		require.EqualValues(t, 1+i, limit)
	}
	for of, want := range map[Client]float64{{"alice", "other"}: 7, {"alice", ""}: 7, {"carol", "app"}: 5, {"carol", "other"}: 4, {"bob", "app"}: 98} {
		_, limit, _ := s.Limit(ProducerByteRate, of)
		require.Equal(t, want, limit, "%v", of)
	}
	require.EqualValues(t, 990, s.MostAtOnce(ConsumerByteRate, Client{"alice", "app"}))
	require.Equal(t, math.Inf(1), s.MostAtOnce(ConsumerByteRate, Client{"bob", "app"}))
	require.Equal(t, math.Inf(1), (*Set)(nil).MostAtOnce(ConsumerByteRate, Client{"bob", "app"}))
}

// Clients that share a quota wait for the use of all of them. A client with a default quota has it
// alone.
func TestQuotasAreSharedByTheirEntity(t *testing.T) {
	now, m := time.UnixMilli(1), &Meters{}
	s := setOf(Quota{Entity{User: Named("alice")}, ProducerByteRate, 10}, Quota{Entity{User: Default}, ProducerByteRate, 10})
	require.Zero(t, m.Record(now, s, ProducerByteRate, Client{"alice", "a"}, 100))
	require.Equal(t, 10*time.Second, m.Record(now, s, ProducerByteRate, Client{"alice", "b"}, 100))
	require.Zero(t, m.Record(now, s, ProducerByteRate, Client{"bob", "a"}, 100))
	require.Zero(t, m.Record(now, s, ProducerByteRate, Client{"carol", "a"}, 100))
	require.Zero(t, m.Record(now, s, ConsumerByteRate, Client{"alice", "a"}, 1e9))
}

func TestRequestsWaitASecondAtMost(t *testing.T) {
	m, s := &Meters{}, setOf(Quota{Entity{User: Default}, RequestPercentage, 1})
	require.Equal(t, time.Second, m.Record(time.UnixMilli(1), s, RequestPercentage, Client{User: "alice"}, 1e6))
	s = setOf(Quota{Entity{User: Default}, ProducerByteRate, 1})
	require.Equal(t, math.MaxInt32*time.Millisecond, m.Record(time.UnixMilli(1), s, ProducerByteRate, Client{User: "alice"}, 1e18), "what an answer can say")
}

// Clients choose the length of their names, and so the memory of their meters.
func TestNamesOfMetersAreBounded(t *testing.T) {
	m, s := &Meters{}, setOf(Quota{Entity{ClientID: Default}, ProducerByteRate, 10}, Quota{Entity{ClientID: Default}, ControllerMutationRate, 10})
	now := time.UnixMilli(1)
	long := strings.Repeat("n", 30_000)
	names := func() (sum int) {
		for of := range m.rates {
			sum += len(of.shared.ClientID.Name)
		}
		for of := range m.buckets {
			sum += len(of.shared.ClientID.Name)
		}
		return sum
	}
	for i := range 1000 {
		m.Record(now, s, ProducerByteRate, Client{ID: fmt.Sprint(i, long)}, 1e6)
		m.Mutate(now, s, Client{ID: fmt.Sprint(i, long)}, 1, Strict)
		require.Equal(t, m.names, names())
	}
	require.LessOrEqual(t, m.names, maxNames)
	require.Greater(t, m.names, maxNames-40_000)
	later := now.Add(20 * windows * windowMs * time.Millisecond)
	m.Record(later, s, ProducerByteRate, Client{ID: "later" + long}, 1)
	require.Equal(t, m.names, names())
	require.Less(t, m.names, 40_000, "idle ones make room, however few they are")
}

// Meters of idle entities are dropped without an effect on clients, and their number is bounded.
func TestMetersAreBounded(t *testing.T) {
	m, s := &Meters{}, setOf(Quota{Entity{ClientID: Default}, ProducerByteRate, 10}, Quota{Entity{ClientID: Default}, ControllerMutationRate, 10})
	now := time.UnixMilli(1)
	for i := range 2 * maxMeters {
		m.Record(now, s, ProducerByteRate, Client{ID: fmt.Sprint(i)}, 1)
		m.Mutate(now, s, Client{ID: fmt.Sprint(i)}, 1, Strict)
	}
	require.LessOrEqual(t, len(m.rates)+len(m.buckets), maxMeters+2)
	require.Positive(t, m.Record(now, s, ProducerByteRate, Client{ID: "one too many"}, 1e6))
	later := now.Add(windows * windowMs * time.Millisecond)
	m.Record(later, s, ProducerByteRate, Client{ID: "later"}, 1)
	require.Len(t, m.rates, 1)
	require.LessOrEqual(t, len(m.buckets), 1, "who shares owes tokens")
}

// An address is the same in every notation. It has its own quota or the default one of all others.
// An excess connection does not count. The times are Kafka's.
func TestConnectionsOfAnAddressAreCounted(t *testing.T) {
	ip := func(name string) Entity { return Entity{IP: Named(name)} }
	s := setOf(Quota{ip("0:0:0:0:0:0:0:1"), ConnectionCreationRate, 1}, Quota{ip("10.0.0.1"), ConnectionCreationRate, 3}, Quota{Entity{User: Default}, ProducerByteRate, 1})
	now := time.UnixMilli(1_000_000)
	var m Meters
	most := func(address string) (n int, wait time.Duration) {
		for ; n < 1000; n++ {
			if wait = m.Connect(now, s, netip.MustParseAddr(address)); wait > 0 {
				break
			}
		}
		require.Equal(t, wait, m.Connect(now, s, netip.MustParseAddr(address)), "it does not count")
		return n, wait
	}
	check := func(address string, want int, wait time.Duration) {
		t.Helper()
		n, got := most(address)
		require.Equal(t, want, n)
		require.Equal(t, wait, got)
	}
	check("::1", 10, time.Second) // one tenth too many waits a second
	check("::ffff:10.0.0.1", 30, 333*time.Millisecond)
	check("10.0.0.1", 0, 333*time.Millisecond)
	check("10.0.0.2", 1000, 0)
	s.Put(Entity{IP: Default}, ConnectionCreationRate, 2)
	check("10.0.0.2", 20, 500*time.Millisecond)
	check("10.0.0.3", 20, 500*time.Millisecond)
	s = s.Clone()
	s.Remove(ip("10.0.0.1"), ConnectionCreationRate)
	now = now.Add(20 * time.Second)
	check("10.0.0.1", 20, 500*time.Millisecond)
	check("::1", 10, time.Second)
	require.Zero(t, m.Connect(now, nil, netip.MustParseAddr("::1")))
}
