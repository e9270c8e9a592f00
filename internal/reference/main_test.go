package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReferencePagesFollowTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	for name, text := range pages {
		want, err := text(t.Context(), root)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(root, dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is stale: go run ./internal/reference", name)
	}
}
