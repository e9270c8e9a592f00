package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// clientMetrics has the configurations of client-metrics resources, and the version of the metadata
// that changed them last. Immutable.
type clientMetrics struct {
	configs *image.NamedConfigs
	version int64
}

// noteClientMetricsLocked takes over the configurations of the image as of a version.
func (c *Cluster) noteClientMetricsLocked(version int64) {
	configs := c.image.ClientMetrics()
	if before := c.metrics.Load(); before.configs != configs {
		c.metrics.Store(&clientMetrics{configs, version})
	}
}

// ClientMetricsProperties returns the configuration of each client-metrics resource, by its name
// and Kafka's keys, and the version of the metadata that changed any of it last. The inner maps are
// immutable. It takes no lock. Kafka: configurations of resources of type CLIENT_METRICS (KIP-714).
func (c *Cluster) ClientMetricsProperties() (byName map[string]map[string]string, version int64) {
	now := c.metrics.Load()
	byName = map[string]map[string]string{}
	for _, name := range now.configs.Names() {
		byName[name] = now.configs.Of(name)
	}
	return byName, now.version
}

// ClientMetricsVersion returns the version of ClientMetricsProperties. It takes no lock.
func (c *Cluster) ClientMetricsVersion() int64 { return c.metrics.Load().version }

// AlterClientMetricsProperties changes the configuration of a client-metrics resource, which exists
// as long as it has a property. edit receives the present properties, must not write to them, and
// returns the new ones or an error. It may be called more than once. When
// AlterClientMetricsProperties returns nil, the change is on stable storage and
// ClientMetricsProperties returns it. Keys and values are not validated: that is the task of the
// server, whose clients change them with IncrementalAlterConfigs. A cluster holds at most 16 MiB of
// such properties. Errors: those of edit, ErrPolicyViolation, ErrMetadataReadOnly, ErrClosed, and
// the context's error.
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
