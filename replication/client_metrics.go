package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// clientMetrics is what is set on client-metrics resources, and since what version of the metadata.
// Immutable.
type clientMetrics struct {
	configs *image.NamedConfigs
	version int64
}

// noteClientMetricsLocked takes over what the image has as of a version.
func (c *Cluster) noteClientMetricsLocked(version int64) {
	configs := c.image.ClientMetrics()
	if before := c.metrics.Load(); before.configs != configs {
		c.metrics.Store(&clientMetrics{configs, version})
	}
}

// ClientMetricsProperties returns what is set on each client-metrics resource, by its name and
// Kafka's keys, and the version of the metadata at which any of it was last changed. The inner maps
// must not be written to, and do not change. It takes no lock. Kafka: configurations of resources
// of type CLIENT_METRICS (KIP-714).
func (c *Cluster) ClientMetricsProperties() (byName map[string]map[string]string, version int64) {
	now := c.metrics.Load()
	byName = map[string]map[string]string{}
	for _, name := range now.configs.Names() {
		byName[name] = now.configs.Of(name)
	}
	return byName, now.version
}

// ClientMetricsVersion returns the version that ClientMetricsProperties returns. It takes no lock.
func (c *Cluster) ClientMetricsVersion() int64 { return c.metrics.Load().version }

// AlterClientMetricsProperties changes what is set on a client-metrics resource, which is there as
// long as something is set on it: edit gets it, must not write to it, and returns what is set
// afterwards, or refuses. It may be called more than once. When AlterClientMetricsProperties
// returns nil the change is on stable storage, and ClientMetricsProperties returns it. What keys
// and values mean is for the server to know: clients of package kafka change them by
// IncrementalAlterConfigs. A cluster has at most 16 MiB of such properties. Errors: edit's,
// ErrPolicyViolation, ErrMetadataReadOnly, ErrClosed, ctx's.
func (c *Cluster) AlterClientMetricsProperties(ctx context.Context, name string, edit func(before map[string]string) (map[string]string, error)) error {
	return alterClientMetrics(name, edit, func(d decision) error { return c.change(ctx, d) })
}

// AlterClientMetricsProperties is Cluster.AlterClientMetricsProperties.
func (d DryRun) AlterClientMetricsProperties(ctx context.Context, name string, edit func(before map[string]string) (map[string]string, error)) error {
	return alterClientMetrics(name, edit, func(decide decision) error { return d.decide(ctx, decide) })
}

func alterClientMetrics(name string, edit func(before map[string]string) (map[string]string, error), change func(decision) error) error {
	err := change(func(img *image.Image) ([]metarecord.Record, error) { return img.AlterClientMetrics(name, edit) })
	if err != nil {
		return fmt.Errorf("alter configuration of client metrics %q: %w", name, err)
	}
	return nil
}
