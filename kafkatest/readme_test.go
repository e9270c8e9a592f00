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
	_, snippet, found := strings.Cut(string(source), "// The snippet of the README.\n")
	require.True(t, found)
	snippet, _, _ = strings.Cut(snippet, "\n}\n")
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+snippet+"\n}\n```")
}
