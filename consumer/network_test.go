package consumer_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/wired"
)

// Consumers of a remote.Cluster make each call in their session, and end it once.
func TestConsumersOverANetworkKeepTheirPromises(t *testing.T) {
	chosen := sample.Fewer(t, 4)
	for i, test := range []func(*testing.T){
		TestReadYieldsWhatWasThereWhenItBegan,
		TestReadMergesPartitionsByTime,
		TestReadHidesMarkersAndAbortedTransactions,
		TestReadGoesOverWhatCompactionRemoved,

		TestReadGoesOnBehindRecordsThatAreDeletedMeanwhile,
		TestReadAndFollowEndWithATopicThatIsDeleted,
		TestReadYieldsTheLastRecordsOfAKey,
		TestFollowOfChosenPartitionsStaysWithThem,

		TestFetchWaitsForMinBytesUpToMaxWait,
		TestFetchReturnsAsSoonAsMinBytesAreThere,
		TestSeeksPausesAndWakeupsNeitherLoseNorRepeatARecord,
		TestNothingFetchedBeforeASeekPauseOrLossReachesHandlersAfterIt,

		TestRecordsBehindACutAreReadFromWhereTheLogDiverges,
		TestPollAndRunReadFromWhereTheLogDiverges,
		TestMemberThatStartsAfterACutReadsFromWhereTheLogDiverges,
		TestReadAndFollowEndWithTheCut,

		TestCleanElectionsAreNoCut,
		TestNewLeaderIsReadWithoutAPause,
		TestNewPartitionsAreAssignedWithoutHelp,
		TestTopicThatMayComeLaterIsReadFromItsFirstRecord,

		TestTwoMembersShareThePartitionsEvenlyAndEachRecordHasOneReader,
		TestSurplusMemberIdlesAndTakesOverFromALeaver,
		TestSlowApplicationLosesItsPartitionsAndItsCommitIsRefused,
		TestCooperativeMembersKeepReadingWhatTheyKeep,

		TestStaticMemberComesBackWithoutARebalance,
		TestStaticMemberThatPollsAgainSeesPartitionsThatCameMeanwhile,
		TestStaticLeaderThatCameBackRebalancesAtOnceForNewPartitions,
		TestSubscribeChangesTheTopicsOfALiveConsumer,

		TestASeekOutlastsARebalanceThatGivesThePartitionBack,
		TestQueuedCommitsAreSentBeforeTheConsumerCloses,
		TestRecordInHandAtACrashComesAgain,
		TestCloseFromACallbackEndsTheReadingLoop,

		TestStormOfRebalancesSeeksPausesClosesAndRecreations,
		TestMembersComeAndGoAndEveryRecordIsProcessedByAnOwner,
		TestRunLeavesNoWorkerBehindWhenACallbackDoesNotReturn,
		TestPartitionsOfADeletedTopicGo,
	} {
		if chosen(i) {
			t.Run(nameOf(test), test)
		}
	}
}

// networks are the clients of clusters over a network, by *strata.Cluster.
var networks sync.Map

// network returns a client of a cluster over a network in memory, with the checks of newClient. The
// tests of one cluster share a client until the test that has called first ends.
func network(t *testing.T, c *strata.Cluster) *client {
	t.Helper()
	if known, ok := networks.Load(c); ok {
		return known.(*client)
	}
	cl := newClient(t, wired.Client(t, c))
	networks.Store(c, cl)
	t.Cleanup(func() {
		networks.Delete(c)
		opened, over := cl.counts()
		require.Equal(t, opened, over, "all sessions have ended")
	})
	return cl
}
