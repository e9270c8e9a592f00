package streaming

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatesOfMembersAreStoredAsKafkasNumbers is about the field of a record that another
// implementation reads: Kafka counts from 1, and takes what it does not know for none of them.
func TestStatesOfMembersAreStoredAsKafkasNumbers(t *testing.T) {
	m := newMember("m")
	require.Equal(t, int8(1), m.record().State)
	m.state = unrevoked
	require.Equal(t, int8(2), m.record().State)
	m.state = unreleased
	require.Equal(t, int8(3), m.record().State)
}
