package fieldtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type inner struct{ N int32 }

type outer struct {
	Name   string
	On     bool
	ID     [2]byte
	List   []inner
	At     *inner
	None   *inner
	ByName map[string]int
	hidden []int
}

func build() outer {
	return outer{"a", true, [2]byte{1, 2}, []inner{{1}, {2}}, &inner{3}, nil, map[string]int{"x": 1}, []int{1}}
}

func TestEachChangeGoesThroughAllPlaces(t *testing.T) {
	var places []string
	EachChange(build, func(place string, changed outer) {
		places = append(places, place)
		require.NotEqual(t, build(), changed, place)
		require.Equal(t, build().hidden, changed.hidden)
	})
	require.Equal(t, []string{".Name", ".On", ".ID[0]", ".ID[1]", ".List is longer", ".List[0].N", ".List[1].N", ".At is nil", ".At.N", ".None is set", ".ByName is smaller"}, places)
}

func TestScrambleChangesAllThatCopiesShare(t *testing.T) {
	v := build()
	shared := v
	Scramble(v)
	require.Equal(t, []any{"a", true, [2]byte{1, 2}}, []any{v.Name, v.On, v.ID}, "a copy's own")
	require.Equal(t, []inner{{2}, {3}}, shared.List)
	require.Equal(t, inner{4}, *shared.At)
	require.Equal(t, map[string]int{"x": 0}, shared.ByName)
}
