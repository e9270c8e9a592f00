package strata_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
)

// A cluster returns the events of its groups until it is closed.
func TestClusterTellsWhyItsGroupsRebalanced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Partitions: 2}))
		events := c.GroupEvents(t.Context())
		member, err := consumer.New(c, consumer.Config{Group: "g", Topics: []string{"t"}})
		require.NoError(t, err)
		_, err = c.WaitGroup(t.Context(), "g", group.StableWith(1))
		require.NoError(t, err)
		require.NoError(t, member.Close())
		require.NoError(t, c.Close())
		var kinds []group.EventKind
		var causes []group.CauseKind
		for e := range events {
			require.Equal(t, "g", e.Group)
			kinds, causes = append(kinds, e.Kind), append(causes, e.Causes[0].Kind)
		}
		require.Equal(t, []group.EventKind{group.Joining, group.Joined, group.Assigned, group.Emptied}, kinds)
		require.Equal(t, []group.CauseKind{group.CauseJoined, group.CauseJoined, group.CauseJoined, group.CauseLeft}, causes)
	})
}
