package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// A QuotaEntity is whose quota something is: a user's, a client id's, that of a user's connections
// with a client id, or an address's, which is never combined. It can be a map's key.
type QuotaEntity = clientquota.Entity

// A QuotaName is one part of a QuotaEntity; the zero value says that the entity has no such part.
type QuotaName = clientquota.Name

// A QuotaKey says what is bounded, in Kafka's words.
type QuotaKey = clientquota.Key

// The keys of quotas. The first four are of users and client ids, the last of addresses.
const (
	ProducerByteRate       = clientquota.ProducerByteRate       // bytes a second of produce requests, whole
	ConsumerByteRate       = clientquota.ConsumerByteRate       // bytes a second of answered fetches, whole
	RequestPercentage      = clientquota.RequestPercentage      // of the time of one thread: 200 is two threads
	ControllerMutationRate = clientquota.ControllerMutationRate // partitions made and deleted a second
	ConnectionCreationRate = clientquota.ConnectionCreationRate // connections a second, whole
)

// A ClientQuota is one of a cluster's.
type ClientQuota = clientquota.Quota

// A ClientQuotaSet is the quotas of a cluster. Its methods may be called on nil.
type ClientQuotaSet = clientquota.Set

// A QuotaChange changes quotas of one entity, all that it names or none.
type QuotaChange = image.QuotaChange

// A QuotaValue sets one quota of a QuotaChange, or takes it away: one that is not there, too.
type QuotaValue = image.QuotaValue

// ErrInvalidQuota is matched by the errors of changes of quotas that are refused: an entity without
// a part, with an address and another part, or with a host's name for an address; a key that the
// entity cannot have; a value that is not above 0, or not whole where it has to be.
var ErrInvalidQuota = image.ErrInvalidQuota

// AlterClientQuotas makes changes of quotas, in one change of the metadata: refused has those that
// are not made, by entity, each matching ErrInvalidQuota, in Kafka's words. An entity may come
// once; its first change is made if it comes twice, and it is refused all the same. When err is nil
// the others are on stable storage and count on every broker. Other errors: *PolicyError beyond
// 50,000 quotas of a cluster, 16 MiB of names or 10,000 changes at once, when nothing is changed;
// ErrMetadataReadOnly, ErrClosed, ctx's. Kafka: ClientQuotaControlManager.
//
// Quotas bound what comes over the wire, not what the process does with the Cluster.
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

// CheckClientQuotas returns what AlterClientQuotas would refuse by the newest metadata, and changes
// nothing.
func (c *Cluster) CheckClientQuotas(changes ...QuotaChange) (refused map[QuotaEntity]error, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if _, refused, err = c.image.AlterQuotas(changes); err != nil {
		return nil, fmt.Errorf("check client quotas: %w", refusal(c.image, err))
	}
	return refused, nil
}

// ClientQuotas returns the quotas of the cluster, as of its newest metadata: a set that must not be
// changed, the same one as long as no quota is, and nil without quotas. It takes no lock.
func (c *Cluster) ClientQuotas() *ClientQuotaSet { return c.quotas.Load() }
