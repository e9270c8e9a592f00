package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/vfs"
)

func TestBatchForATopicThatWasCreatedAgainIsRefused(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 1)
	former, _ := c.TopicID("orders")
	send := func(id [16]byte) error {
		done := make(chan partition.ProduceResult, 1)
		c.Produce(&partition.ProduceRequest{
			TopicPartition: at("orders", 0), TopicID: id, Batch: batch("x"), Done: func(r partition.ProduceResult) { done <- r },
		})
		return (<-done).Err
	}
	require.NoError(t, send(former))
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	require.ErrorIs(t, send(former), ErrUnknownTopic)
	create(t, c, "orders", 1)
	require.ErrorIs(t, send(former), ErrUnknownTopic)
	require.Empty(t, values(t, c, at("orders", 0)))
	current, _ := c.TopicID("orders")
	require.NoError(t, send(current))
	require.NoError(t, send([16]byte{}), "who knows no id does not say one")
	require.Equal(t, []string{"x", "x"}, values(t, c, at("orders", 0)))
}

func TestMetadataVersionIsThatOfTheChangeThatHasReturned(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	changes := []func() error{
		func() error { create(t, c, "orders", 1); return nil },
		func() error { return c.AddPartitions(t.Context(), "orders", 2) },
		func() error { return c.AlterTopic(t.Context(), "orders", properties("retention.ms", "1000")) },
		func() error { return c.DeleteTopic(t.Context(), "orders") },
	}
	for _, change := range changes {
		before := c.MetadataVersion()
		require.NoError(t, change())
		require.Greater(t, c.MetadataVersion(), before)
		md, err := c.Metadata(t.Context())
		require.NoError(t, err)
		require.Equal(t, md.Version, c.MetadataVersion())
	}
	again := open(t, fsys.Kill())
	require.Greater(t, again.MetadataVersion(), c.MetadataVersion(), "that its broker has started again is a change")
}
