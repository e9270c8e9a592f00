package remote

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/consumer"
)

// JoinShare returns ErrUnsupported: members of share groups need a cluster in this process so far.
func (s *session) JoinShare(context.Context, consumer.ShareMember) (consumer.ShareMembership, error) {
	return nil, final(fmt.Errorf("%w: share groups over the network", ErrUnsupported))
}
