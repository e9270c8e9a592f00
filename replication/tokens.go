package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// A DelegationToken is the cluster's state of a token that represents its owner (KIP-48). The
// token's secret part is not in it: it is derived from the id and a secret that the cluster does
// not have. See kafka.DelegationTokens.
type DelegationToken = image.Token

// DelegationTokens is the immutable set of the tokens in one version of the metadata; nil is empty.
type DelegationTokens = image.Tokens

// ErrDelegationTokenNotFound rejects a change of a delegation token that does not exist.
var ErrDelegationTokenNotFound = image.ErrTokenNotFound

// DelegationTokens returns the delegation tokens of the newest metadata, or nil if there are none.
// Expired tokens may be among them until the next change of a token removes them. A change creates
// a new set.
func (c *Cluster) DelegationTokens() *DelegationTokens {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Tokens()
}

// CreateDelegationToken stores a token, which is valid at every broker from then on. Times are
// truncated to milliseconds. When it returns nil, the token is on stable storage. Errors:
// ErrDuplicateResource for an existing id; ErrPolicyViolation for a token without id, owner or
// requester, with more than 64 KiB of names, or beyond 50,000 tokens or 16 MiB of ids and names;
// ErrMetadataReadOnly, ErrClosed, and the context's error. Kafka: DelegationTokenControlManager.
func (c *Cluster) CreateDelegationToken(ctx context.Context, t DelegationToken) error {
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) { return img.CreateToken(t, time.Now()) })
	if err != nil {
		return fmt.Errorf("create a delegation token: %w", err)
	}
	return nil
}

// AlterDelegationToken sets the time at which a token expires to the result of decide, at most the
// token's Max; the zero time removes the token. decide receives the present token, is called at
// most once, and must not wait: no other change of the metadata happens meanwhile.
// AlterDelegationToken returns the error of decide. Other errors: ErrDelegationTokenNotFound,
// ErrMetadataReadOnly, ErrClosed, and the context's error.
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
