package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// GroupProperties returns what is set on a group, by Kafka's keys, nil if nothing is. It must not
// be written to, and does not change. It takes no lock. Kafka: GroupConfigManager.
func (c *Cluster) GroupProperties(id string) map[string]string { return c.groups.Load().Of(id) }

// ConfiguredGroups returns the ids of the groups on which something is set, sorted.
func (c *Cluster) ConfiguredGroups() []string { return c.groups.Load().Names() }

// AlterGroupProperties changes what is set on a group, whether there is such a group or not: edit
// gets it, must not write to it, and returns what is set afterwards, or refuses. It may be called
// more than once. When AlterGroupProperties returns nil the change is on stable storage, and
// GroupProperties returns it. What keys and values mean is for package group to know:
// group.Coordinator.AlterGroupConfig is for applications. A cluster has at most 16 MiB of such
// properties. Errors: edit's, ErrPolicyViolation, ErrMetadataReadOnly, ErrClosed, ctx's.
func (c *Cluster) AlterGroupProperties(ctx context.Context, id string, edit func(before map[string]string) (map[string]string, error)) error {
	return alterGroup(id, edit, func(d decision) error { return c.change(ctx, d) })
}

// AlterGroupProperties is Cluster.AlterGroupProperties.
func (d DryRun) AlterGroupProperties(ctx context.Context, id string, edit func(before map[string]string) (map[string]string, error)) error {
	return alterGroup(id, edit, func(decide decision) error { return d.decide(ctx, decide) })
}

func alterGroup(id string, edit func(before map[string]string) (map[string]string, error), change func(decision) error) error {
	err := change(func(img *image.Image) ([]metarecord.Record, error) { return img.AlterGroup(id, edit) })
	if err != nil {
		return fmt.Errorf("alter configuration of group %q: %w", id, err)
	}
	return nil
}
