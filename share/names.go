package share

import (
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/share/internal/groupstate"
	"github.com/stratalog/strata/share/sharelog"
)

// A Key names a share-partition.
type Key = sharelog.Key

// A State is what is stored of a share-partition.
type State = sharelog.Value

// What the coordinator answers. The names in brackets are Kafka's error codes.
var (
	ErrFencedLeaderEpoch = groupstate.ErrFencedLeaderEpoch // FENCED_LEADER_EPOCH
	ErrFencedStateEpoch  = groupstate.ErrFencedStateEpoch  // FENCED_STATE_EPOCH
	ErrNotInitialized    = groupstate.ErrNotInitialized    // INVALID_REQUEST

	// ErrNotCoordinator: the coordinator of the share-partition moves, or its disk fails.
	// NOT_COORDINATOR: look for it again.
	ErrNotCoordinator = machine.ErrNotLeader
	// ErrCoordinatorNotAvailable: nobody coordinates the share-partition just now.
	// COORDINATOR_NOT_AVAILABLE: retry.
	ErrCoordinatorNotAvailable = machine.ErrNotAvailable
	// ErrTooLarge: the state does not fit in one record.
	ErrTooLarge = machine.ErrTooLarge
	ErrClosed   = machine.ErrClosed
)
