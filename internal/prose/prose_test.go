package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProseStaysWithinItsBudget(t *testing.T) {
	f, err := below(filepath.Join("..", ".."))
	require.NoError(t, err)
	budget, err := readBudget("budget.txt")
	require.NoError(t, err)
	for k, n := range count(f.places) {
		for i, kind := range kinds {
			if n[i] <= budget[k][i] {
				continue
			}
			assert.Failf(t, "more phrases than the budget allows", "%s, %s, %s: %d, budget %d", k.dir, k.class, kind.name, n[i], budget[k][i])
			for _, p := range f.places {
				if filepath.ToSlash(filepath.Dir(p.file)) == k.dir && p.class == k.class && p.kind == i {
					t.Log(p)
				}
			}
		}
	}
}

func TestPhrasesAreFoundWhereTheyStand(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("testdata", "spoken.go"))
	require.NoError(t, err)
	f := found{lines: map[key]int{}}
	require.NoError(t, f.addFile("spoken.go", src))
	require.Equal(t, place{"comments", "spoken.go", 1, 0, "what it", "// Package spoken tells what it is."}, f.places[0])
	require.Equal(t, counts{
		{".", "comments"}: {2, 2, 1, 1}, {".", "exported"}: {1, 2, 1, 0}, {".", "errors"}: {0, 0, 1, 1},
	}, count(f.places))
	f = found{lines: map[key]int{}}
	require.NoError(t, f.addFile("a.md", []byte("Nobody reads.\n```\nsomebody\n```\n    anybody\n")))
	require.Equal(t, []place{{"pages", "a.md", 1, 2, "Nobody", "Nobody reads."}}, f.places)
}

func TestABudgetIsOnlyLowered(t *testing.T) {
	k := key{"log", "comments"}
	require.Equal(t, counts{k: {1, 2, 0, 0}}, counts{k: {3, 2, 0, 0}, {"gone", "errors"}: {1, 0, 0, 0}}.lowered(counts{k: {1, 5, 1, 0}, {"new", "pages"}: {1, 0, 0, 0}}))
}
