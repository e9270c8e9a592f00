package consumer_test

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/sample"
)

// ofEitherProtocol are the tests of members that hold for both protocols. Each opens its members
// by open.
var ofEitherProtocol = []func(*testing.T){
	TestTwoMembersShareThePartitionsEvenlyAndEachRecordHasOneReader,
	TestSurplusMemberIdlesAndTakesOverFromALeaver,
	TestSlowApplicationLosesItsPartitionsAndItsCommitIsRefused,
	TestMemberWhoseHeartbeatsDoNotGetThroughGivesUpItsPartitions,
	TestCooperativeMembersKeepReadingWhatTheyKeep,
	TestStaticMemberComesBackWithoutARebalance,
	TestStaticMembersComeBackOneAfterTheOtherWithoutARebalance,
	TestStaticMemberThatComesBackSeesThatTheAssignmentDoesNotFit,
	TestStaticMemberThatComesBackIsNotHandedWhatItDoesNotSubscribeTo,
	TestStaticMemberThatPollsAgainSeesPartitionsThatCameMeanwhile,
	TestNewPartitionsAreAssignedWithoutHelp,
	TestTwoGroupsEachGetEveryRecord,
	TestMembersWithOtherTopicsGetOnlyTheirs,
	TestSubscribeChangesTheTopicsOfALiveConsumer,
	TestTopicThatMayComeLaterIsReadFromItsFirstRecord,
	TestEveryRecordOfATopicThatWasCreatedAgainIsRead,
	TestASeekOutlastsARebalanceThatGivesThePartitionBack,
	TestASeekEndsWithItsTopic,
	TestWhatASeekFindsIsCommittedLikeAnOffset,
	TestQueuedCommitsAreSentBeforeTheConsumerCloses,
	TestRecordInHandAtACrashComesAgain,
	TestConsumerOfAClosedClusterIsTold,
	TestMembersComeAndGoAndEveryRecordIsProcessedByAnOwner,
	TestStormOfRebalancesSeeksPausesClosesAndRecreations,
	TestStormOfRewindsSubscriptionsAndBrokersLosesNoRecord,
	TestRunHoldsItsPromisesWhateverHandlersAndCallersDo,
}

// Members of the newer protocol keep the promises of members, too.
func TestMembersOfTheNewerProtocolKeepThePromisesOfMembers(t *testing.T) {
	chosen := sample.Fewer(t, 4)
	for i, test := range ofEitherProtocol {
		if !chosen(i) {
			continue
		}
		t.Run(nameOf(test), test)
	}
}

// Groups that migrate from one protocol to the other have members of both.
func TestMembersOfBothProtocolsKeepThePromisesOfMembers(t *testing.T) {
	for _, test := range []func(*testing.T){
		TestTwoMembersShareThePartitionsEvenlyAndEachRecordHasOneReader,
		TestSurplusMemberIdlesAndTakesOverFromALeaver,
		TestStormOfRebalancesSeeksPausesClosesAndRecreations,
	} {
		t.Run(nameOf(test), test)
	}
}

func nameOf(test func(*testing.T)) string {
	_, name, _ := strings.Cut(runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name(), ".Test")
	return name
}

// ofBothProtocols reports whether a test has members of both.
func ofBothProtocols(t *testing.T) bool {
	return strings.HasPrefix(t.Name(), "TestMembersOfBothProtocolsKeepThePromisesOfMembers/")
}

// opened counts the members that a test has opened, by its name.
var opened sync.Map

// speak sets the protocol that the test is about.
func speak(t *testing.T, cfg *consumer.Config) {
	newer := strings.Contains(t.Name(), "MembersOfTheNewerProtocolKeepThePromisesOfMembers/")
	if ofBothProtocols(t) {
		n, _ := opened.LoadOrStore(t.Name(), new(int))
		*n.(*int)++ // a test opens its members one after the other
		newer = *n.(*int)%2 == 0
	}
	if newer && cfg.Group != "" { // the group sets the other fields
		cfg.Protocol, cfg.Assignors, cfg.SessionTimeout, cfg.HeartbeatInterval = consumer.ProtocolConsumer, nil, 0, 0
	}
}
