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

// noAccess is the access control of an image without entries.
var noAccess = access{set: acl.NewSet()}

// ACLs returns the access control entries of the newest metadata. The set is immutable. The same
// set is returned until an entry is created or deleted. ACLs takes no lock.
func (c *Cluster) ACLs() *acl.Set {
	if a := c.access.Load(); a != nil {
		return a.set
	}
	return noAccess.set
}

// indexAccessLocked makes ACLs return the entries of the image.
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

// CreateACLs creates access control entries, all of them or none. Entries that exist already are
// left unchanged. When it returns nil, the entries are on stable storage and every broker applies
// them. CreateACLs does not authorize its caller: that is the server's task. A cluster holds at
// most 50,000 entries with 16 MiB of names; one call creates at most 10,000. Errors:
// *acl.InvalidError, ErrPolicyViolation, ErrMetadataReadOnly, ErrClosed, and the context's error.
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

// DeleteACLs deletes the access control entries that match any of the filters. It returns the
// matches of each filter in the order of acl.Entry.Compare; an entry that two filters match is in
// both lists. When it returns nil, the deletion is on stable storage and no broker applies the
// entries any more. One call deletes at most 10,000. Errors: *acl.InvalidError, ErrPolicyViolation,
// ErrMetadataReadOnly, ErrClosed, and the context's error.
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
