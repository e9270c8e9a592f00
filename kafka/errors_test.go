package kafka

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
)

// A member that receives NOT_LEADER_OR_FOLLOWER would look for another leader of its topics, not
// for its coordinator.
func TestErrorOfACoordinatorIsToldAsSuchWhateverCausedIt(t *testing.T) {
	for _, cause := range []error{partition.ErrNotLeader, partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch, partition.ErrClosed,
		partition.ErrTimeout, partition.ErrNotEnoughReplicas, replication.ErrClosed, replication.ErrUnknownTopic} {
		for err, want := range map[error]Code{group.ErrNotCoordinator: NotCoordinator, group.ErrCoordinatorNotAvailable: CoordinatorNotAvailable} {
			require.Equal(t, want, codeOf(fmt.Errorf("%w: %w: %w", err, group.ErrMoving, cause)), "%v: %v", err, cause)
		}
		require.NotContains(t, []Code{NotCoordinator, CoordinatorNotAvailable}, codeOf(cause))
	}
}

// Clients retry a change of the metadata that may have happened, whatever disk failed.
func TestMetadataThatCannotBeChangedIsATimeout(t *testing.T) {
	disk := &fs.PathError{Op: "sync", Path: "00000000000000000000.log", Err: syscall.EIO}
	require.Equal(t, RequestTimedOut, codeOf(fmt.Errorf("create topic: %w: %w", replication.ErrMetadataReadOnly, disk)))
	require.Equal(t, KafkaStorageError, codeOf(fmt.Errorf("create topic: %w", disk)))
}

// Clients retry the lookup of an offset that a new leader does not have yet.
func TestOffsetThatIsNotAvailableIsRetriedByEveryClient(t *testing.T) {
	code := int16(codeOf(fmt.Errorf("list offsets: %w", partition.ErrOffsetNotAvailable)))
	require.Equal(t, OffsetNotAvailable, Code(offsetCode(code, 5)))
	require.Equal(t, LeaderNotAvailable, Code(offsetCode(code, 4)))
	require.Equal(t, NotLeaderOrFollower, Code(offsetCode(int16(NotLeaderOrFollower), 4)))
}
