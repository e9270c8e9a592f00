package clientquota

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntitiesAreOrderedAndNamed(t *testing.T) {
	ordered := []Entity{
		{User: Default, ClientID: Default}, {User: Default}, {User: Default, ClientID: Named("app")},
		{ClientID: Default}, {IP: Default}, {IP: Named("::1")}, {ClientID: Named("app")}, {User: Named("alice")}, {User: Named("alice"), ClientID: Named("app")},
	}
	for i, e := range ordered {
		require.Empty(t, e.Check())
		for j, f := range ordered {
			require.Equal(t, i < j, e.Compare(f) < 0, "%v %v", e, f)
			require.Equal(t, i == j, e.Compare(f) == 0, "%v %v", e, f)
		}
		again, err := EntityOf(Quota{Entity: e}.Record())
		require.NoError(t, err)
		require.Equal(t, e, again)
	}
	require.Equal(t, "{client-id=null, user=alice}", Entity{User: Named("alice"), ClientID: Default}.String())
	require.Equal(t, "localhost is not a valid IP or resolvable host.", Entity{IP: Named("localhost")}.Check())
	require.Nil(t, new(Entity).Part("zone"))
}
