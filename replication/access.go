package replication

import (
	"context"
	"fmt"
	"slices"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// access is the access control of an image, indexed.
type access struct {
	of  *image.ACLs // of the image; nil: it has none
	set *acl.Set
}

// noAccess is that of an image without entries.
var noAccess = access{set: acl.NewSet()}

// ACLs returns the access control entries of the cluster, as of its newest metadata. The set is
// immutable, and the same one as long as no entry is made or removed. It takes no lock.
func (c *Cluster) ACLs() *acl.Set {
	if a := c.access.Load(); a != nil {
		return a.set
	}
	return noAccess.set
}

// indexAccessLocked has ACLs return those of the image.
func (c *Cluster) indexAccessLocked() {
	of := c.image.AccessControl()
	before := c.access.Load()
	switch {
	case before == nil && of == nil, before != nil && before.of == of:
	case of == nil:
		c.access.Store(&noAccess)
	default:
		c.access.Store(&access{of, acl.NewSet(slices.Collect(of.All())...)})
	}
}

// CreateACLs makes access control entries, all of them or none; those that there are already stay.
// When it returns nil they are on stable storage, and every broker goes by them. Nobody is asked
// whether the caller may: that is for servers. A cluster has at most 50,000 entries, with 16 MiB of
// names, and one call makes at most 10,000. Errors: *acl.InvalidError, ErrPolicyViolation,
// ErrMetadataReadOnly, ErrClosed, ctx's.
func (c *Cluster) CreateACLs(ctx context.Context, entries ...acl.Entry) error {
	for _, e := range entries {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("create access control entries: %w", err)
		}
	}
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		return img.CreateACLs(entries, func() metarecord.ID { return metarecord.ID(topic.NewID()) })
	})
	if err != nil {
		return fmt.Errorf("create access control entries: %w", err)
	}
	return nil
}

// DeleteACLs removes the access control entries that any of the filters means, and returns for each
// filter what it has found, in the order of acl.Entry.Compare: what two of them mean is in both.
// When it returns nil the entries are gone from stable storage, and no broker goes by them. One
// call removes at most 10,000. Errors: *acl.InvalidError, ErrPolicyViolation, ErrMetadataReadOnly,
// ErrClosed, ctx's.
func (c *Cluster) DeleteACLs(ctx context.Context, filters ...acl.Filter) ([][]acl.Entry, error) {
	for _, f := range filters {
		if err := f.Validate(); err != nil {
			return nil, fmt.Errorf("delete access control entries: %w", err)
		}
	}
	var removed [][]acl.Entry
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		recs, found, err := img.DeleteACLs(filters)
		removed = found
		return recs, err
	})
	if err != nil {
		return nil, fmt.Errorf("delete access control entries: %w", err)
	}
	return removed, nil
}
