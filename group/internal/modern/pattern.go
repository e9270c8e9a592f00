package modern

import (
	"maps"
	"slices"

	"github.com/stratalog/strata/group/offsets"
)

// A pattern is a regular expression that members subscribe by, and the topics that it matched.
type pattern struct {
	topics  []string // sorted
	version int64    // of the topics
	ms      int64    // when
}

func (p *pattern) addTo(all map[string]bool) {
	for _, t := range p.topics {
		all[t] = true
	}
}

// Matches are the topics that regular expressions match. They are found outside of the group, which
// shares a goroutine with others: how long that takes is up to who wrote the expression.
type Matches struct {
	Version int64               // of the topics that were looked at
	Topics  map[string][]string // by expression, sorted; nil: it cannot be read, and matches what it did
}

// UnmatchedError answers an event that depends on what expressions match. The event has changed
// nothing. It may come again, with Matches of all the expressions.
type UnmatchedError struct {
	Exprs  []string // sorted
	Topics *Topics
}

func (u *UnmatchedError) Error() string {
	return "group: regular expressions have to be matched first"
}

// resolve finds the topics of the expressions that members subscribe by: of one that is new, and of
// all if there are other topics now. Those that nobody has any more are dropped. Kafka does so in
// the background, and gives a new member nothing until then.
//
// It returns the version of the topics that the group goes by then; -1: none are known.
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
	if !c.hasMatched(exprs) {
		return 0, &UnmatchedError{Exprs: exprs, Topics: g.topics}
	}
	for _, expr := range exprs {
		c.store(expr, c.matches.Topics[expr])
	}
	return min(c.matches.Version, g.topics.Version), nil
}

// unmatched returns the expressions that have to be matched, sorted: those that were not, or not
// with the present topics. after is that of the member that the event is about; "": it has none.
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

// hasMatched reports whether the event brings what expressions match, of topics that are not older
// than those that others were matched with. If the group has seen newer topics since, the next
// event matches again.
func (c *change) hasMatched(exprs []string) bool {
	if c.matches == nil || c.matches.Version < c.g.checked {
		return false
	}
	return !slices.ContainsFunc(exprs, func(expr string) bool { _, ok := c.matches.Topics[expr]; return !ok })
}

// drop forgets an expression.
func (c *change) drop(expr string) {
	if c.dropped == nil {
		c.dropped = make(map[string]bool)
	}
	c.dropped[expr] = true
	c.g.emit(offsets.Record{Key: c.g.key(offsets.KeyRegularExpression, expr)})
}

// store stores what an expression matches, if that is anything new.
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
