package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// A QuotaEntity is the entity that a quota applies to: a user, a client id, a user with a client
// id, or an address. An address is never combined with another part. A QuotaEntity can be a map's
// key.
type QuotaEntity = clientquota.Entity

// A QuotaName is one part of a QuotaEntity; the zero value means that the entity lacks that part.
type QuotaName = clientquota.Name

// A QuotaKey is Kafka's name of a limited quantity.
type QuotaKey = clientquota.Key

// The keys of quotas. The first four apply to users and client ids, the last to addresses.
const (
	ProducerByteRate       = clientquota.ProducerByteRate       // bytes a second of produce requests, whole
	ConsumerByteRate       = clientquota.ConsumerByteRate       // bytes a second of fetch responses, whole
	RequestPercentage      = clientquota.RequestPercentage      // of the time of one thread: 200 is two threads
	ControllerMutationRate = clientquota.ControllerMutationRate // partitions created and deleted a second
	ConnectionCreationRate = clientquota.ConnectionCreationRate // connections a second, whole
)

// A ClientQuotaSet is the set of a cluster's quotas. Its methods may be called on nil.
type ClientQuotaSet = clientquota.Set

// A QuotaChange sets and removes quotas of one entity, all of them or none.
type QuotaChange = image.QuotaChange

// A QuotaValue sets or removes one quota of a QuotaChange. Removing a quota that does not exist is
// no error.
type QuotaValue = image.QuotaValue

// ErrInvalidQuota is matched by the errors of rejected changes of quotas: an entity without a part,
// with an address and another part, or with a host name as address; a key that the entity cannot
// have; a value that is not above 0, or is fractional for a key that must be whole.
var ErrInvalidQuota = image.ErrInvalidQuota

// AlterClientQuotas changes quotas in one change of the metadata. refused has the errors of the
// rejected changes by entity; each matches ErrInvalidQuota and has Kafka's message. If an entity
// occurs twice, its first change is made, and refused has the entity nevertheless. A key that
// occurs twice in a change is rejected with it. When err is nil, the other changes are on stable
// storage and apply on every broker. Other errors, after which nothing has changed: *PolicyError
// beyond 50,000 quotas of a cluster, 16 MiB of names or 10,000 changes at once;
// ErrMetadataReadOnly, ErrClosed, and the context's error. Kafka: ClientQuotaControlManager.
//
// Quotas limit requests over the wire, not calls of the Cluster in this process.
func (c *Cluster) AlterClientQuotas(ctx context.Context, changes ...QuotaChange) (refused map[QuotaEntity]error, err error) {
	err = c.change(ctx, func(img *image.Image) (recs []metarecord.Record, err error) {
		recs, refused, err = img.AlterQuotas(changes)
		return recs, err
	})
	if err != nil {
		return nil, fmt.Errorf("alter client quotas: %w", err)
	}
	return refused, nil
}

// CheckClientQuotas returns the errors that AlterClientQuotas would return for the newest metadata.
// It changes nothing.
func (c *Cluster) CheckClientQuotas(changes ...QuotaChange) (refused map[QuotaEntity]error, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if _, refused, err = c.image.AlterQuotas(changes); err != nil {
		return nil, fmt.Errorf("check client quotas: %w", c.refusal(c.image, err))
	}
	return refused, nil
}

// ClientQuotas returns the quotas of the newest metadata, or nil if there are none. The set is
// immutable, and the same set is returned until a quota changes. It takes no lock.
func (c *Cluster) ClientQuotas() *ClientQuotaSet { return c.quotas.Load() }
