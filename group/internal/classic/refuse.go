package classic

import (
	"fmt"

	"github.com/stratalog/strata/group/protocol"
	"github.com/stratalog/strata/internal/machine"
)

// Says gives an error of package protocol Kafka's words.
func Says(err error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...))
}

// Refuse returns the answer to an event that meets a group of another kind, one that has no place
// for members of the classic protocol. The Reply of an event that has no request is to nobody.
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
