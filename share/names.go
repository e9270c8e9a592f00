package share

import (
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/share/internal/groupstate"
)

// A Key names a share-partition.
type Key = sharelog.Key

// A State is the stored state of a share-partition.
type State = sharelog.Value

// Errors of the coordinator. The comments name Kafka's error codes.
var (
	ErrFencedLeaderEpoch = groupstate.ErrFencedLeaderEpoch // FENCED_LEADER_EPOCH
	ErrFencedStateEpoch  = groupstate.ErrFencedStateEpoch  // FENCED_STATE_EPOCH
	ErrNotInitialized    = groupstate.ErrNotInitialized    // INVALID_REQUEST
	// ErrFull rejects a new state of a client that is served with a bound: see docs/limits.md.
	// POLICY_VIOLATION.
	ErrFull = groupstate.ErrFull

	// ErrNotCoordinator is returned when the coordinator of the share-partition moves, or its disk
	// fails. NOT_COORDINATOR: find the coordinator again.
	ErrNotCoordinator = machine.ErrNotLeader
	// ErrCoordinatorNotAvailable is returned while the share-partition has no coordinator.
	// COORDINATOR_NOT_AVAILABLE: retry.
	ErrCoordinatorNotAvailable = machine.ErrNotAvailable
	// ErrTooLarge is returned when the state does not fit in one record.
	ErrTooLarge = machine.ErrTooLarge
	ErrClosed   = machine.ErrClosed
)
