package interop

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

// A riddenMirror forwards to a cluster in this process.
type riddenMirror struct {
	*mirror.Forward
	target *strata.Cluster
}

// rideMirrors returns a mirror and a copy of a topic.
func rideMirrors(t *testing.T, c *remote.Cluster, name string) (riddenMirror, *mirror.Copy) {
	t.Helper()
	local, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Close()) })
	require.NoError(t, local.CreateTopic(within(t), name, topic.Config{Partitions: partitionsRidden}))
	f, err := mirror.NewForward(c, local, mirror.ForwardConfig{ID: name, Topics: []string{name}})
	require.NoError(t, err)
	copied, err := mirror.OpenCopy(c, mirror.CopyConfig{Dir: t.TempDir(), Topics: []string{name}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, copied.Close()) })
	return riddenMirror{f, local}, copied
}

// alongside calls both, and returns when both have ended.
func alongside(ctx context.Context, one, other func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- one(ctx) }()
	return errors.Join(other(ctx), <-ended)
}
