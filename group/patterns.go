package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/internal/re2"
)

// maxInstructions is how large the program of an expression that members subscribe by may be: a
// list of a hundred names fits. To match a byte takes no more than some nanoseconds for each
// instruction: 10,000 names of 30 bytes take some seconds at worst, and milliseconds as a rule.
// Kafka has no such limit.
const maxInstructions = 2_000

// compilePattern reads an expression that members subscribe by. The error, in Kafka's words, is
// ErrInvalidRegularExpression, also for one that is too large. Kafka:
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

// matching is ask for a member of a group of the newer protocol. If the answer depends on what the
// group's expressions match, that is found out, by the goroutine of the request, and ask runs again
// with it. describes is that of the request. What was matched is refused only if the group has come
// by another expression meanwhile, or has matched newer topics: then another request was answered.
func (c *Coordinator) matching(ctx context.Context, describes func(string) bool, ask func(*modern.Matches) (any, error)) (any, error) {
	var matches *modern.Matches
	for {
		v, err := ask(matches)
		unmatched := (*modern.UnmatchedError)(nil)
		if !errors.As(err, &unmatched) {
			return v, err
		}
		if matches, err = matchAll(ctx, unmatched, describes); err != nil {
			return nil, err
		}
	}
}

// matchAll matches expressions with the names of topics that describes lets through; nil: all. The
// error is ctx's.
func matchAll(ctx context.Context, u *modern.UnmatchedError, describes func(string) bool) (*modern.Matches, error) {
	m := &modern.Matches{Version: u.Topics.Version, Topics: make(map[string][]string, len(u.Exprs))}
	compiled := make(map[string]*regexp.Regexp, len(u.Exprs))
	for _, expr := range u.Exprs {
		m.Topics[expr] = nil
		if re, err := compilePattern(expr); err == nil { // else another implementation has stored it
			compiled[expr], m.Topics[expr] = re, []string{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Topics.ByName)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if describes != nil && !describes(name) { // first, so that other topics cost nothing
			continue
		}
		for expr, re := range compiled {
			if re.MatchString(name) {
				m.Topics[expr] = append(m.Topics[expr], name)
			}
		}
	}
	return m, nil
}
