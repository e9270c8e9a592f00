package modern

import (
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// A pattern is a regular expression of members, with the topics that it matched.
type pattern struct {
	topics  []string // sorted
	version int64    // of the topics
	ms      int64    // time of the match
}

func (p *pattern) addTo(all map[string]bool) {
	for _, t := range p.topics {
		all[t] = true
	}
}

// Matches are the topics that regular expressions match. They are computed outside of the group,
// which shares a goroutine with other groups: an expression may take long.
type Matches struct {
	Version int64               // of the topics
	Topics  map[string][]string // by expression, sorted; nil if it is invalid, and keeps its earlier matches
	Partial bool                // the event is processed although expressions are missing
}

// UnmatchedError is the reply to an event that depends on matches of expressions. The event has
// changed nothing. The caller may retry it with Matches of all Exprs.
type UnmatchedError struct {
	Exprs  []string // sorted
	Topics *Topics
}

func (u *UnmatchedError) Error() string {
	return "group: regular expressions have to be matched first"
}

// resolve matches a new expression, and all of them if the topics have changed. Expressions without
// a remaining member are dropped. An expression that partial matches lack keeps its earlier topics,
// or has none; the next event matches it again. Kafka matches all in the background, and assigns a
// new member no partitions until then.
//
// It returns the version of the topics with which all expressions were matched; -1 if unknown.
func (c *change) resolve(before, after *subscription) (int64, error) {
	g := c.g
	if before.Regex != "" && before.Regex != after.Regex && g.users[before.Regex] <= 1 && g.patterns[before.Regex] != nil {
		c.drop(before.Regex)
	}
	if g.topics == nil {
		return -1, nil
	}
	exprs := c.unmatched(after.Regex)
	if len(exprs) == 0 {
		return g.topics.Version, nil
	}
	if c.hasMatched(exprs) {
		for _, expr := range exprs {
			c.store(expr, c.matches.Topics[expr])
		}
		return min(c.matches.Version, g.topics.Version), nil
	}
	if c.matches == nil || !c.matches.Partial {
		return 0, &UnmatchedError{Exprs: exprs, Topics: g.topics}
	}
	c.partial = true
	for _, expr := range exprs {
		if topics, ok := c.matches.Topics[expr]; ok && c.matches.Version >= g.checked {
			c.store(expr, topics)
		}
	}
	return g.checked, nil
}

// unmatched returns the expressions to match, sorted: new ones, and all if the topics have changed.
// after is the expression of the event's member; "" if it has none.
func (c *change) unmatched(after string) []string {
	g := c.g
	exprs := make(map[string]bool)
	for expr := range g.patterns {
		exprs[expr] = !c.dropped[expr] && g.checked != g.topics.Version
	}
	if after != "" && g.patterns[after] == nil {
		exprs[after] = true
	}
	maps.DeleteFunc(exprs, func(_ string, needed bool) bool { return !needed })
	return slices.Sorted(maps.Keys(exprs))
}

// hasMatched reports whether the event has matches of exprs, for topics that are not older than in
// the last check of all expressions. If the group has newer topics, the next event matches again.
func (c *change) hasMatched(exprs []string) bool {
	if c.matches == nil || c.matches.Version < c.g.checked {
		return false
	}
	return !slices.ContainsFunc(exprs, func(expr string) bool { _, ok := c.matches.Topics[expr]; return !ok })
}

// drop removes an expression.
func (c *change) drop(expr string) {
	if c.dropped == nil {
		c.dropped = make(map[string]bool)
	}
	c.dropped[expr] = true
	c.g.emit(offsets.Record{Key: c.g.key(offsets.KeyRegularExpression, expr)})
}

// store emits the matches of an expression if they have changed.
func (c *change) store(expr string, topics []string) {
	old := c.g.patterns[expr]
	if old != nil && (topics == nil || slices.Equal(old.topics, topics)) {
		return
	}
	p := &pattern{topics: topics, version: c.matches.Version, ms: c.now.UnixMilli()}
	if c.patterns == nil {
		c.patterns = make(map[string]*pattern)
	}
	c.patterns[expr] = p
	c.g.put(offsets.KeyRegularExpression, expr, &offsets.RegexValue{Topics: p.topics, Version: p.version, TimestampMs: p.ms})
}

// topicsOf returns the topics that a member subscribes to by name and expression, sorted.
func (c *change) topicsOf(m *member) []string {
	p := c.g.patterns[m.Regex]
	if c.patterns[m.Regex] != nil {
		p = c.patterns[m.Regex]
	}
	if m.Regex == "" || p == nil {
		return m.Topics
	}
	all := make(map[string]bool, len(m.Topics)+len(p.topics))
	for _, t := range m.Topics {
		all[t] = true
	}
	p.addTo(all)
	return slices.Sorted(maps.Keys(all))
}
