package kafkatest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadmeShowsATestThatRuns(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	snippets := strings.Split(string(source), "// A snippet of the README.\n")[1:]
	require.Len(t, snippets, 2)
	for _, snippet := range snippets {
		snippet, _, _ = strings.Cut(snippet, "\n}\n")
		require.Contains(t, string(readme), "```go\n"+snippet+"\n}\n```")
	}
}
