package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// GroupProperties returns the properties of a group, by Kafka's keys, or nil if it has none. The
// map is immutable. It takes no lock. Kafka: GroupConfigManager.
func (c *Cluster) GroupProperties(id string) map[string]string { return c.groups.Load().Of(id) }

// ConfiguredGroups returns the ids of the groups that have properties, sorted.
func (c *Cluster) ConfiguredGroups() []string { return c.groups.Load().Names() }

// AlterGroupProperties changes the properties of a group, which need not exist. edit receives the
// present properties, must not write to them, and returns the new ones or an error. It may be
// called more than once. When AlterGroupProperties returns nil, the change is on stable storage and
// GroupProperties returns it. Keys and values are not validated: that is the task of package group,
// and applications use group.Coordinator.AlterGroupConfig. A cluster holds at most 16 MiB of such
// properties. Errors: those of edit, ErrPolicyViolation, ErrMetadataReadOnly, ErrClosed, and the
// context's error.
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
