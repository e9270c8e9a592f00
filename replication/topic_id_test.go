package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A caller that chooses a topic's id can repeat the creation after an unknown outcome.
func TestCreationWithAnIdRecognisesItself(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 2)
	ctx := t.Context()
	cfg := topic.Config{ID: topic.NewID(), Partitions: 2, Properties: properties("retention.ms", "60000")}
	require.NoError(t, c.CreateTopic(ctx, "orders", cfg))
	version := c.MetadataVersion()
	id, _ := c.TopicID("orders")
	require.Equal(t, cfg.ID, id)
	produce(t, c, at("orders", 0), "x")
	again := func(change func(*topic.Config)) topic.Config {
		other := cfg
		change(&other)
		return other
	}
	check := func(c *Cluster) {
		t.Helper()
		require.NoError(t, c.CreateTopic(ctx, "orders", cfg))
		require.NoError(t, c.CreateTopic(ctx, "orders", again(func(c *topic.Config) { c.ReplicationFactor = 1 })))
		_, _, err := c.DryRun().CreateTopic(ctx, "orders", cfg)
		require.NoError(t, err)
		for what, other := range map[string]topic.Config{
			"partitions": again(func(c *topic.Config) { c.Partitions = 3 }),
			"settings":   again(func(c *topic.Config) { c.Properties = nil }),
			"replicas":   again(func(c *topic.Config) { c.Assignment = [][]int32{{2}, {2}} }),
			"no id":      again(func(c *topic.Config) { c.ID = topic.ID{} }),
			"another id": again(func(c *topic.Config) { c.ID = topic.NewID() }),
		} {
			require.ErrorIs(t, c.CreateTopic(ctx, "orders", other), ErrTopicExists, what)
		}
		require.ErrorIs(t, c.CreateTopic(ctx, "other", cfg), ErrTopicIDInUse)
		require.ErrorIs(t, c.CreateTopic(ctx, "other", again(func(c *topic.Config) { c.ID = topic.ID{15: 1} })), ErrTopicIDInUse)
		require.Equal(t, []string{"x"}, values(t, c, at("orders", 0)))
	}
	check(c)
	require.Equal(t, version, c.MetadataVersion(), "nothing was written")

	id = topic.NewID()
	specs := []TopicSpec{{"orders", cfg}, {"a", topic.Config{ID: id}}, {"b", topic.Config{ID: id}}, {"a", topic.Config{ID: id}}, {"c", topic.Config{}}, {"d", topic.Config{}}}
	errs := c.CreateTopics(ctx, specs)
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.ErrorIs(t, errs[2], ErrTopicIDInUse)
	require.ErrorIs(t, errs[3], ErrTopicExists)
	require.NoError(t, errs[4])
	require.NoError(t, errs[5])
	require.Equal(t, []string{"a", "c", "d", "orders"}, names(t, c))
	require.NoError(t, c.Close())
	c = openBrokers(t, fsys, 2)
	check(c)
	require.NoError(t, c.DeleteTopic(ctx, "orders"))
	require.ErrorIs(t, c.CreateTopic(ctx, "orders", cfg), ErrTopicIDInUse, "that topic was deleted")
	require.NoError(t, c.Close())
	_, err := Open(Config{Defaults: topic.Config{ID: id}})
	require.ErrorIs(t, err, ErrTopicIDInUse)
}

// A creation whose caller gave up while the controller died is repeated.
func TestCreationIsRepeatedAfterTheControllerDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(3)
		c := openWith(t, ds.config())
		ds[0].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Delay: time.Hour})
		cfg := topic.Config{ID: topic.NewID(), Partitions: 3}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.CreateTopic(ctx, "orders", cfg), context.DeadlineExceeded)
		require.NoError(t, c.KillBroker(1))
		require.NoError(t, c.CreateTopic(t.Context(), "orders", cfg))
		require.Len(t, leaders(t, c, "orders"), 3)
		require.NoError(t, c.StartBroker(t.Context(), 1))
		require.NoError(t, c.CreateTopic(t.Context(), "orders", cfg))
	})
}
