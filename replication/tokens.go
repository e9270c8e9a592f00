package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// A DelegationToken is what the cluster keeps of a token that stands for its owner (KIP-48). What
// proves that somebody has it follows from its id and a secret, which the cluster does not know:
// see kafka.DelegationTokens.
type DelegationToken = image.Token

// DelegationTokens are all of them, as of some metadata. They do not change; nil has none.
type DelegationTokens = image.Tokens

// ErrDelegationTokenNotFound refuses to change a delegation token that there is not.
var ErrDelegationTokenNotFound = image.ErrTokenNotFound

// DelegationTokens returns the delegation tokens, as of the newest metadata; nil: there are none.
// Tokens that have expired may be among them, until the next change of one takes them away. A
// change makes another value.
func (c *Cluster) DelegationTokens() *DelegationTokens {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Tokens()
}

// CreateDelegationToken keeps a token, which counts from then on at every broker; times are cut to
// milliseconds. When it returns nil that is on stable storage. Errors: ErrDuplicateResource for an
// id that there is; ErrPolicyViolation for one without id, owner or requester, for more than 50,000
// tokens, or names of more than 64 KiB; ErrMetadataReadOnly, ErrClosed, ctx's. Kafka:
// DelegationTokenControlManager.
func (c *Cluster) CreateDelegationToken(ctx context.Context, t DelegationToken) error {
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) { return img.CreateToken(t, time.Now()) })
	if err != nil {
		return fmt.Errorf("create a delegation token: %w", err)
	}
	return nil
}

// AlterDelegationToken has a token expire when decide says, not later than its Max; the zero time
// takes it away. decide gets the token as it is then, is called once, at most, and must not wait:
// no other change of the metadata happens meanwhile. Its error is handed on. Others:
// ErrDelegationTokenNotFound, ErrMetadataReadOnly, ErrClosed, ctx's.
func (c *Cluster) AlterDelegationToken(ctx context.Context, id string, decide func(DelegationToken) (until time.Time, err error)) error {
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		t, ok := img.Tokens().Get(id)
		if !ok {
			return nil, fmt.Errorf("%w: %q", ErrDelegationTokenNotFound, id)
		}
		until, err := decide(t)
		if err != nil {
			return nil, err
		}
		return img.AlterToken(id, until, time.Now())
	})
	if err != nil {
		return fmt.Errorf("alter a delegation token: %w", err)
	}
	return nil
}
