package consumer_test

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/remote"
)

// networkEnv makes all tests of this package use a cluster in the process over a network in memory,
// if it is set. A few do in every run.
const networkEnv = "STRATA_NETWORK"

const overNetworkPrefix = "TestConsumersOverANetworkKeepTheirPromises/"

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

// overNetwork reports whether the consumers of a test reach their cluster over a network.
func overNetwork(t *testing.T) bool {
	return os.Getenv(networkEnv) != "" || strings.HasPrefix(t.Name(), overNetworkPrefix)
}

// inProcess skips a test whose consumers reach their cluster over a network. reason states the
// difference of a network.
func inProcess(t *testing.T, reason string) {
	t.Helper()
	if overNetwork(t) {
		t.Skip("in process: " + reason)
	}
}

// settle waits until consumers have done all that they can. Over a network they notice changes of
// the metadata only when these are refreshed, and a fetch in progress delays the next one.
func settle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if overNetwork(t) {
		time.Sleep(remote.DefaultMetadataMaxAge + time.Second)
		synctest.Wait()
	}
}

// networks are the networks of clusters, by *strata.Cluster.
var networks sync.Map

// network returns a client of a cluster over a network in memory, with the checks of newClient. The
// tests of one cluster share a client until the test that has called first ends.
func network(t *testing.T, c *strata.Cluster) *client {
	t.Helper()
	if known, ok := networks.Load(c); ok {
		return known.(*client)
	}
	n, s, lns, cfg := &memnet.Network{}, kafka.NewServer(c, kafka.Config{}), map[int32]net.Listener{}, remote.Config{}
	cfg.Dial = n.Dial
	for _, id := range c.Brokers() {
		ln, err := n.Listen("127.0.0.1:0")
		require.NoError(t, err)
		lns[id], cfg.Brokers = ln, append(cfg.Brokers, ln.Addr().String())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeAll(lns) }()
	r, err := remote.Open(t.Context(), cfg)
	require.NoError(t, err)
	cl := newClient(t, r)
	networks.Store(c, cl)
	t.Cleanup(func() {
		networks.Delete(c)
		opened, over := cl.counts()
		require.Equal(t, opened, over, "all sessions have ended")
		require.NoError(t, r.Close())
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
	})
	return cl
}
