package systest

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stratalog/strata/internal/sample"
)

// Checklist row CL1.
func TestTransformOverANetworkRejectsAProducerOfAnotherCluster(t *testing.T) {
	TestTransformRejectsAProducerOfAnotherCluster(t)
}

// Checklist row RM1. The consumer and the producer use a remote.Cluster.
func TestTransformOverANetworkKeepsItsPromises(t *testing.T) {
	chosen := sample.Fewer(t, 3)
	for i, test := range []func(*testing.T){
		TestTransformIsExactlyOnceWhoeverDies,
		TestTransformWritesOutputAndOffsetsTogether,
		TestTransformThatFailsHasChangedNothingAndMayBeCalledAgain,

		TestTransformFinishesTheBatchInHandWhenItsContextEnds,
		TestTransformOfALostPartitionIsAborted,
		TestTransformCommitsNothingOutsideOfItsTransactions,

		TestReaderWaitsForTheOffsetOfAnOpenTransaction,
		TestSuccessorOfATransformerNeedNotWaitForItsTransaction,
		TestTransactionalProducerContinuesWhenItsIDHasExpired,
	} {
		if chosen(i) {
			name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
			t.Run(name[strings.LastIndex(name, ".")+1:], test)
		}
	}
}
