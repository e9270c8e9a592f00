package producer_test

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
)

// over returns the backend that a test is about: c, or a client of c over a network in memory.
func over(t testing.TB, c *strata.Cluster) producer.TxnBackend {
	t.Helper()
	if wired.On(t) {
		return wired.Client(t, c)
	}
	return c
}

// noticed returns the time by which producers have noticed a change of the metadata. begun is the
// time of the change. Over a network it waits until then.
func noticed(t testing.TB, begun time.Time) time.Time {
	t.Helper()
	if !wired.On(t) {
		return begun
	}
	wired.Settle(t)
	return time.Now()
}

// Producers of a remote.Cluster.
func TestProducersOverANetworkKeepTheirPromises(t *testing.T) {
	chosen := sample.Fewer(t, 4)
	for i, test := range []func(*testing.T){
		TestLostConfirmationsLeaveOneCopyOfEachRecordInOrder,
		TestIdempotenceHoldsOverRestartsOfTheBroker,
		TestIdempotenceHoldsOverPowerCutsOfTheBroker,
		TestBatchThatALostLeaderMayHaveKeepsItsSequence,

		TestProducersGoOnWhileTheirTopicIsDeletedCreatedAgainGrownAndShrunk,
		TestBufferedRecordsOfADeletedTopicFailAtOnce,
		TestTopicCreatedAgainWithFewerPartitionsIsSeenByTheNextSend,
		TestRecordForATopicThatMayComeLaterIsWrittenWhenItIsThere,

		TestAcksDecideWhetherSendWaitsForTheDisk,
		TestProducersSideBySideKeepTheirOwnSettings,
		TestBatchLargerThanTheTopicAllowsIsSplitOnACluster,
		TestSurvivesPowerLossOnceAcknowledged,

		TestTransactionAppearsAsAWhole,
		TestLaterProducerOfTheIDFencesTheEarlierOne,
		TestTransactionThatTakesTooLongIsAborted,
		TestCommitCoversSendsThatHaveBegun,

		TestFailedSendMakesCommitFailAndAbortHeals,
		TestOutcomeThatIsNotKnownWhenTheContextEndsIsToldLater,
		TestTransactAbortsWhenItsFunctionFails,
		TestOffsetsOfATransactionAreTheGroupsWhenItIsCommitted,
	} {
		if chosen(i) {
			name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
			t.Run(name[strings.LastIndex(name, ".")+1:], test)
		}
	}
}
