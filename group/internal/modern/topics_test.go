package modern

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopicsThatDoNotExistCostAMemberNothing(t *testing.T) {
	g := &Group{names: map[string]int{"left": 1, "kept": 2, "missing": 3}}
	c := &change{g: g}
	before, after := &subscription{Topics: []string{"kept", "left", "missing"}}, &subscription{Topics: []string{"missing", "new", "nowhere"}}
	require.Empty(t, c.topics(before, after))
	for name, others := range map[string]int{"few topics": 0, "many topics": 10} {
		t.Run(name, func(t *testing.T) {
			byName := map[string]Topic{"left": {}, "kept": {}, "new": {}}
			for i := range others {
				byName[string(rune('0'+i))] = Topic{}
			}
			g.topics = NewTopics(1, byName)
			require.Equal(t, []string{"kept", "new"}, c.topics(before, after))
		})
	}
}
