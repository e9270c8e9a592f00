package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

func TestUnknownTopicErrorNamesTheNearestTopic(t *testing.T) {
	c := openWith(t, Config{})
	for _, name := range []string{"orders", "order-lines", "payments", "a", "abc", "shipments-europe-1", "shipments-europe-2"} {
		create(t, c, name, 1)
	}
	require.NoError(t, c.CreateTopic(t.Context(), "__consumer_offsets", topic.Config{}))
	for wanted, nearest := range map[string]string{
		"order":              "orders", // omitted
		"orderss":            "orders", // doubled
		"oredrs":             "orders", // swapped
		"orbers":             "orders", // replaced
		"Orders":             "orders", // another case
		"PAYMENTS":           "payments",
		"order_lines":        "order-lines",
		"abd":                "abc",
		"shipments-europe-3": "shipments-europe-1", // the first of two by name
		"shipmnets-euroep-2": "shipments-europe-2",
		"invoices":           "", // nothing like it
		"b":                  "", // all names of one letter are alike
		"ordxxx":             "",
		"__consumer_offset":  "", // internal
		"orders-europe":      "",
	} {
		want := &UnknownTopicError{Topic: wanted, Nearest: nearest}
		md, err := c.Metadata(t.Context(), "orders", wanted)
		require.NoError(t, err)
		require.NoError(t, md.Topics["orders"].Err)
		require.Equal(t, want, md.Topics[wanted].Err)
		_, err = c.Topic(t.Context(), wanted)
		require.Equal(t, want, err)
		for call, err := range map[string]error{
			"grow":   c.AddPartitions(t.Context(), wanted, 5),
			"delete": c.DeleteTopic(t.Context(), wanted),
			"alter":  c.AlterTopic(t.Context(), wanted, nil),
			"dry":    c.DryRun().AddPartitions(t.Context(), wanted, 5),
		} {
			var unknown *UnknownTopicError
			require.True(t, errors.As(err, &unknown), "%s: %v", call, err)
			require.Equal(t, want, unknown, call)
			require.ErrorIs(t, err, ErrUnknownTopic)
		}
	}
	err := c.DeleteTopic(t.Context(), "oders")
	require.ErrorContains(t, err, `"oders" (did you mean "orders"?)`)
	err = c.DeleteTopic(t.Context(), "invoices")
	require.NotContains(t, err.Error(), "did you mean")
}

func TestSearchForTheNearestTopicIsBounded(t *testing.T) {
	img := image.New()
	for i := range 30_000 { // names that are as alike as can be
		name := strings.Repeat("a", 230) + fmt.Sprintf("%019d", i)
		img.Topics[name] = &image.Topic{Name: name}
	}
	wanted := strings.Repeat("a", 230) + "xxxxxxxxxxxxxxxxxxx"
	oneName := 1 + len(wanted)/8 + len(wanted)*(2*typingErrors(len(wanted))+1)
	shared := nearestSearch{budget: nearestBudget}
	for range 1000 {
		require.Empty(t, shared.nearest(img, wanted))
		require.Greater(t, shared.budget, -oneName, "all searches share a budget")
	}
	require.Less(t, shared.budget, 1000)
}

// plainDistance computes the whole table, without a band.
func plainDistance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
		for j := 1; i > 0 && j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j-1]+cost, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
		for j := 0; i == 0 && j <= len(b); j++ {
			d[0][j] = j
		}
	}
	return d[len(a)][len(b)]
}

func TestDistanceWithinABandIsThatOfTheWholeTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		b := make([]byte, 1+rnd.IntN(9))
		for i := range b {
			b[i] = "abc"[rnd.IntN(3)]
		}
		return string(b)
	}
	s := nearestSearch{}
	for range 50_000 {
		a, b, limit := name(), name(), rnd.IntN(4)
		if len(b) > len(a)+limit || len(b) < len(a)-limit {
			continue
		}
		got, want := s.distance(a, b, limit), plainDistance(a, b)
		if want > limit {
			require.Greater(t, got, limit, "%s %s %d", a, b, limit)
			continue
		}
		require.Equal(t, want, got, "%s %s %d", a, b, limit)
	}
}

func TestSearchesForSimilarNamesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cluster
		searches := func() (n int) {
			for range 1000 {
				if c.maySearch() {
					n++
				}
			}
			return n
		}
		most := int(nearestBurst / nearestPause)
		require.Equal(t, most, searches())
		time.Sleep(2 * nearestPause)
		require.Equal(t, 2, searches())
		time.Sleep(time.Hour)
		require.Equal(t, most, searches())
	})
}
