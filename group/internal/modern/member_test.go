package modern

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/fieldtest"
	"github.com/stratalog/strata/internal/offsets"
)

func TestEveryChangeOfASubscriptionIsNoticed(t *testing.T) {
	build := func() offsets.ConsumerMemberValue {
		return offsets.ConsumerMemberValue{InstanceID: "i", RackID: "r", ClientID: "c", ClientHost: "h", Topics: []string{"a", "b", "c"}, Regex: "d.*", RebalanceTimeoutMs: 1, Assignor: "range",
			Classic: &offsets.ClassicMember{SessionTimeoutMs: 2, Protocols: []offsets.ClassicProtocol{{Name: "x", Metadata: []byte{1, 2, 3}}, {Name: "y", Metadata: []byte{4}}}}}
	}
	same, other := subscription(build()), subscription(build())
	require.True(t, same.equal(&other))
	fieldtest.EachChange(build, func(place string, changed offsets.ConsumerMemberValue) {
		other := subscription(changed)
		require.False(t, same.equal(&other) || other.equal(&same), place)
	})
}
