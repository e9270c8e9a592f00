package strata_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestNoMoreFilesAreOpenThanTheClusterMayHave(t *testing.T) {
	dir := t.TempDir()
	c, err := strata.Open(strata.Config{Dir: dir, MaxOpenFiles: 8})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 40}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range int32(40) {
		_, err = p.Send(t.Context(), record.String("orders", "k", "v").To(i))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	open := 0
	for _, l := range links {
		if name, err := os.Readlink(l); err == nil && strings.HasPrefix(name, dir) && strings.HasSuffix(name, ".log") {
			open++
		}
	}
	require.LessOrEqual(t, open, 8)
	require.Positive(t, open)
}
