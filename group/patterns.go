package group

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/internal/re2"
)

// maxInstructions bounds the program of a regular expression in a subscription. A list of a hundred
// names fits. To match a byte takes at most about 6 ns for each instruction. Kafka has no such
// limit.
const maxInstructions = 2_000

// compilePattern compiles an expression of a subscription. The error, with Kafka's text, is
// ErrInvalidRegularExpression, also for too large a program. Kafka:
// GroupMetadataManager.throwIfRegularExpressionIsInvalid.
func compilePattern(expr string) (*regexp.Regexp, error) {
	var re *regexp.Regexp
	err := error(&syntax.Error{Code: syntax.ErrLarge})
	if !tooLong(expr) {
		re, err = re2.Compile(expr, maxInstructions)
	}
	if err == nil {
		return re, nil
	}
	why := err.Error()
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		why = e.Code.String()
	}
	//lint:ignore ST1005 Kafka's words, which clients print
	return nil, fmt.Errorf("%w: SubscribedTopicRegex `%s` is not a valid regular expression: %s.", ErrInvalidRegularExpression, expr, why)
}

// matching sends an event of a member to a group of the newer protocol: send returns the response.
// If the group needs matches of expressions, the request's goroutine computes them, and the event
// is sent again. After the evaluator's patience it is sent with the matches that are complete, and
// a later heartbeat continues. owner and describes are the request's.
func (c *Coordinator) matching(ctx context.Context, owner string, describes func(string) bool, send func(*modern.Matches) (any, error)) (any, error) {
	var matches *modern.Matches
	var late <-chan struct{}
	for {
		v, err := send(matches)
		unmatched := (*modern.UnmatchedError)(nil)
		if !errors.As(err, &unmatched) {
			return v, err
		}
		if late == nil {
			expired := make(chan struct{})
			late = expired
			timer := time.AfterFunc(c.evaluator.patience, func() { close(expired) })
			defer timer.Stop()
		}
		ev := evaluation{evaluator: c.evaluator, ctx: ctx, closing: c.ctx, owner: owner, describes: describes, late: late}
		if matches, err = ev.matchAll(unmatched); err != nil {
			return nil, err
		}
	}
}
