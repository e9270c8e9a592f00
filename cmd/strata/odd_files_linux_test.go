package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A pipe, or a sparse file of 1 TiB, in place of any file of a data directory blocks no command.
// Opening a pipe waits for its other end, and reading 1 TiB takes hours.
func TestPipesAndHugeSparseFilesHoldNoCommandUp(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	p, err := producer.New(c, producer.Config{TransactionalID: "tx"})
	require.NoError(t, err)
	tx, err := p.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, tx.Send(t.Context(), record.String("orders", "k", "a")))
	require.NoError(t, tx.Abort(t.Context()))
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	require.Equal(t, exitOK, strataRun(t, "export", "--dir", "data", "--to", "kafka").code)

	commands := map[string][][]string{
		"data/broker-1": {{"verify", "data"}, {"dump", "data"}, {"backup", "data", "out"}, {"restore", "data", "out"}, {"export", "--dir", "data", "--to", "out"}, {"consume", "orders", "--dir", "data"}},
		"kafka":         {{"verify", "kafka"}, {"dump", "kafka"}, {"import", "--from", "kafka", "--dir", "out"}},
	}
	place := map[string]func(name string) error{
		"pipe": func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"sparse": func(name string) error {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(name, 1<<40)
		},
	}
	for root, lines := range commands {
		require.NoError(t, filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.Contains(name, "__") && !strings.Contains(name, "__cluster_metadata") {
				return err
			}
			for kind, put := range place {
				require.NoError(t, os.Rename(name, "kept"))
				require.NoError(t, put(name))
				for _, args := range lines {
					done := make(chan result, 1)
					go func() { done <- strataRun(t, args...) }()
					select {
					case <-done:
					case <-time.After(20 * time.Second):
						t.Fatalf("%s at %s: strata %s has not returned after 20 s", kind, name, strings.Join(args, " "))
					}
					require.NoError(t, os.RemoveAll("out"))
				}
				require.NoError(t, os.Remove(name))
				require.NoError(t, os.Rename("kept", name))
			}
			return nil
		}))
	}
}
