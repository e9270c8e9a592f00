package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListNamesEveryExampleOnOneScreen(t *testing.T) {
	var out strings.Builder
	require.NoError(t, list(&out, readme))
	var listed, there []string
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) +\S.+$`).FindAllStringSubmatch(out.String(), -1) {
		listed = append(listed, m[1])
	}
	dirs, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, d := range dirs {
		if d.IsDir() {
			there = append(there, d.Name())
		}
	}
	require.ElementsMatch(t, there, listed)
	for line := range strings.SplitSeq(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 110)
	}
}
