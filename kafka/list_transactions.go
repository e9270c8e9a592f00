package kafka

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/re2"
	"github.com/stratalog/strata/transaction"
)

// transactionStates are the states that a filter of ListTransactions may have. No id is ever in
// Kafka's PrepareEpochFence, and an id in Dead is not listed.
var transactionStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// maxPattern is the maximum number of instructions in the program of a pattern.
const maxPattern = 10_000

// listTransactions serves ListTransactions (KIP-664). It lists the ids that this broker
// coordinates, filtered by state and producer id. From version 1 on it filters by the time since
// the transaction began (KIP-994). As in Kafka, an id without a transaction passes that filter.
// From 2 on it filters by a pattern that must match the whole id (KIP-1152, RE2 as in Kafka). Key
// 66, versions 0 to 2.
//
// Deviation from Kafka: a pattern that is too large is rejected like an invalid pattern.
func (c *call) listTransactions(req *kmsg.ListTransactionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	fits := func(string) bool { return true }
	if p := orEmpty(req.TransactionalIDPattern); p != "" {
		whole, err := re2.Compile(p, maxPattern)
		if err != nil {
			resp.ErrorCode = int16(InvalidRegularExpression)
			return resp
		}
		fits = whole.MatchString
	}
	for _, name := range req.StateFilters {
		if !slices.Contains(transactionStates, name) { // each is named once, see dropRepeated
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	producers := make(map[int64]bool, len(req.ProducerIDFilters))
	for _, id := range req.ProducerIDFilters {
		producers[id] = true
	}
	all, err := c.transactions.List(c.ctx)
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	now := time.Now()
	for _, d := range all {
		if !hasState(req.StateFilters, d) || !fits(d.ID) ||
			len(producers) > 0 && !producers[d.Producer.ID] ||
			c.version >= 1 && req.DurationFilterMillis >= 0 && !d.Started.IsZero() && now.Sub(d.Started).Milliseconds() <= req.DurationFilterMillis {
			continue
		}
		s := kmsg.NewListTransactionsResponseTransactionState()
		s.TransactionalID, s.ProducerID, s.TransactionState = d.ID, d.Producer.ID, d.State.String()
		resp.TransactionStates = append(resp.TransactionStates, s)
	}
	return resp
}

// hasState reports whether the filter contains the state of d; an empty filter contains all
// states.
func hasState(filter []string, d transaction.Description) bool {
	return len(filter) == 0 || slices.Contains(filter, d.State.String())
}
