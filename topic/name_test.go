package topic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestValidNamesAreKafkas(t *testing.T) {
	for _, name := range []string{"a", "orders", "a.b_c-D9", "...", "-", strings.Repeat("x", MaxNameLength), "__consumer_offsets"} {
		require.NoError(t, ValidateName(name), name)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a\x00b", "a\nb", "ü", "a b", `a\b`, strings.Repeat("x", MaxNameLength+1)} {
		require.ErrorIs(t, ValidateName(name), ErrInvalidName, "%q", name)
	}
}

func TestNamesThatDifferByDotAndUnderscoreCollide(t *testing.T) {
	require.Equal(t, CollisionKey("a.b"), CollisionKey("a_b"))
	require.NotEqual(t, CollisionKey("a-b"), CollisionKey("a_b"))
}

func TestInternalTopicsAreTheCoordinators(t *testing.T) {
	require.True(t, IsInternal("__consumer_offsets"))
	require.True(t, IsInternal("__transaction_state"))
	require.False(t, IsInternal("__orders"))
}

func TestIDsAreRandomUUIDsAndSurviveTheirTextForm(t *testing.T) {
	seen := map[ID]bool{}
	for range 1000 {
		id := NewID()
		require.False(t, seen[id])
		seen[id] = true
		require.Equal(t, byte(4), id[6]>>4)
		require.Equal(t, byte(2), id[8]>>6)
		require.Len(t, id.String(), 22)
		require.NotEqual(t, byte('-'), id.String()[0])
		back, err := ParseID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, back)
	}
	require.True(t, ID{}.IsZero())
}

func TestMalformedIDsAreRefused(t *testing.T) {
	for _, s := range []string{"", "x", "AAAAAAAAAAAAAAAAAAAAAA==", strings.Repeat("A", 23), strings.Repeat("A", 21), "AAAAAAAAAAAAAAAAAAAA/A"} {
		_, err := ParseID(s)
		require.ErrorIs(t, err, ErrInvalidID, "%q", s)
	}
}
