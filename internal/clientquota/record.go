package clientquota

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
)

// Record returns the metadata record that sets the quota.
func (q Quota) Record() *metarecord.ClientQuota {
	rec := &metarecord.ClientQuota{Key: string(q.Key), Value: q.Value}
	for _, p := range Parts {
		if n := q.Entity.Part(p); n.Default {
			rec.Entity = append(rec.Entity, metarecord.QuotaPart{Type: string(p)})
		} else if n.Given() {
			rec.Entity = append(rec.Entity, metarecord.QuotaPart{Type: string(p), Name: &n.Name})
		}
	}
	return rec
}

// EntityOf returns the entity of a metadata record. It fails if this version does not support it.
func EntityOf(rec *metarecord.ClientQuota) (e Entity, err error) {
	for _, p := range rec.Entity {
		n := e.Part(Part(p.Type))
		switch {
		case n == nil:
			return e, fmt.Errorf("client quota of a %q", p.Type)
		case n.Given():
			return e, fmt.Errorf("client quota of two names of type %q", p.Type)
		case p.Name == nil:
			*n = Default
		case *p.Name == "":
			return e, fmt.Errorf("client quota of a %q without a name", p.Type)
		default:
			*n = Named(*p.Name)
		}
	}
	if why := e.Check(); why != "" {
		return e, errors.New(why)
	}
	return e, nil
}
