package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The process of the cluster keeps records for ever, by a setting that is in no file.
func TestCommandWithADirectoryDeletesNoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		cfg := strata.Config{FS: disk, Dir: "data"}
		cfg.Defaults.Properties = map[string]string{"retention.ms": "-1"}
		c, err := strata.Open(cfg)
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "old", topic.Config{Properties: map[string]string{"segment.bytes": "1048576"}}))
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for range 30 {
			_, err := p.Send(t.Context(), record.Record{Topic: "old", Value: make([]byte, 100_000), Timestamp: time.Now().Add(-30 * 24 * time.Hour)})
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())

		a := &app{fs: disk}
		c, err = a.openDir("data")
		require.NoError(t, err)
		time.Sleep(time.Hour) // in the bubble
		info, err := c.Topic(t.Context(), "old")
		require.NoError(t, err)
		require.Zero(t, info.Partitions[0].LogStartOffset)
		require.NoError(t, c.Close())
	})
}
