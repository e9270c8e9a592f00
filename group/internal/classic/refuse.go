package classic

import (
	"fmt"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// Says wraps an error of package protocol with Kafka's text.
func Says(err error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...))
}

// Refuse returns the error reply of a group of another kind, which cannot have members of the
// classic protocol. The Reply to an event without a request has no ticket.
func Refuse(ev Event) machine.Reply {
	switch e := ev.(type) {
	case EventJoin:
		return machine.Reply{To: e.To, Err: protocol.ErrInconsistentProtocol}
	case EventSync:
		return machine.Reply{To: e.To, Err: protocol.ErrUnknownMember}
	case EventHeartbeat:
		return machine.Reply{To: e.To, Err: protocol.ErrUnknownMember, Now: true}
	case EventLeave:
		errs := make([]error, len(e.Members))
		for i := range errs {
			errs[i] = protocol.ErrUnknownMember
		}
		return machine.Reply{To: e.To, Value: errs}
	case EventCommit:
		return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
	case EventTxnCommit:
		return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
	case EventDelete:
		return machine.Reply{To: e.To, Err: protocol.ErrNonEmptyGroup}
	case EventDeleteOffsets:
		return machine.Reply{To: e.To, Err: protocol.ErrGroupNotFound}
	case EventReset:
		return machine.Reply{To: e.To, Err: protocol.ErrNonEmptyGroup}
	}
	return machine.Reply{}
}
