package clientquota

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that owes tokens still owes them after meters of idle clients are dropped.
func TestDroppedMetersAreNotThoseThatOwe(t *testing.T) {
	m, s := &Meters{}, setOf(Quota{Entity{ClientID: Default}, ControllerMutationRate, 1})
	now := time.UnixMilli(1)
	wait, ok := m.Mutate(now, s, Client{ID: "owes"}, 1000, Permissive)
	require.True(t, ok)
	require.Greater(t, wait, 900*time.Second)
	for second := range 30 { // more meters than are kept without a check
		now = now.Add(time.Second)
		for i := range 30 {
			m.Mutate(now, s, Client{ID: fmt.Sprint("idle", second, "-", i)}, 1, Permissive)
		}
	}
	require.Less(t, len(m.buckets), 900, "some were dropped")
	wait, ok = m.Mutate(now, s, Client{ID: "owes"}, 1, Strict)
	require.False(t, ok)
	require.Greater(t, wait, 900*time.Second)
}

// An address has a quota under two spellings. Removing one leaves the other.
func TestQuotaOfAnAddressOutlivesAnotherSpelling(t *testing.T) {
	spellings := []Entity{{IP: Named("0:0:0:0:0:0:0:1")}, {IP: Named("::0001")}, {IP: Named("::1")}}
	for _, removed := range spellings[:2] {
		s := setOf(Quota{spellings[0], ConnectionCreationRate, 1}, Quota{spellings[1], ConnectionCreationRate, 1}, Quota{spellings[2], ConnectionCreationRate, 1})
		s.Remove(removed, ConnectionCreationRate)
		m, waits := &Meters{}, false
		for range 100 {
			waits = waits || m.Connect(time.UnixMilli(1), s, netip.MustParseAddr("::1")) > 0
		}
		require.True(t, waits, "%v was removed", removed)
	}
}

func TestQuotasThatMakeNoSenseAreRefused(t *testing.T) {
	user, id, ip := Entity{User: Named("u")}, Entity{ClientID: Named("c")}, Entity{IP: Named("10.0.0.1")}
	for _, tt := range []struct {
		entity  Entity
		refused bool
	}{
		{Entity{}, true}, {user, false}, {id, false}, {ip, false}, {Entity{User: Named("u"), ClientID: Default}, false}, {Entity{IP: Default}, false},
		{Entity{User: Default, IP: Default}, true}, {Entity{ClientID: Default, IP: Default}, true}, {Entity{IP: Named("host")}, true},
	} {
		require.Equal(t, tt.refused, tt.entity.Check() != "", "%v", tt.entity)
	}
	keys := []Key{ProducerByteRate, ConsumerByteRate, RequestPercentage, ControllerMutationRate, ConnectionCreationRate, "other"}
	for e, allowed := range map[Entity][]Key{user: keys[:4], id: keys[:4], ip: keys[4:5]} {
		for _, k := range keys {
			takes := func(v float64) bool { return e.CheckValue(k, v) == "" }
			mayHave := false
			for _, a := range allowed {
				mayHave = mayHave || a == k
			}
			fraction := k == RequestPercentage || k == ControllerMutationRate
			require.Equal(t, mayHave, takes(1), "%v %s", e, k)
			require.Equal(t, mayHave && fraction, takes(1.5), "%v %s of a fraction", e, k)
			require.Equal(t, mayHave && fraction, takes(math.MaxFloat64), "%v %s without end", e, k)
			for _, v := range []float64{0, -1, math.NaN()} {
				require.False(t, takes(v), "%v %s of %v", e, k, v)
			}
		}
	}
}
