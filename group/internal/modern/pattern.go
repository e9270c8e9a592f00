package modern

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/group/protocol"
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

// CompileRegex reads an expression that members subscribe by: RE2's syntax, which Kafka's RE2/J
// has, too. It must match a whole name. The error is ErrInvalidRegularExpression.
func CompileRegex(expr string) (*regexp.Regexp, error) {
	_, err := regexp.Compile(expr) // "a)(b" is none, though it is within brackets
	var re *regexp.Regexp
	if err == nil {
		re, err = regexp.Compile(`^(?:` + expr + `)$`)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrInvalidRegularExpression, err)
	}
	return re, nil
}

// resolve finds the topics of the expressions that members subscribe by: of one that is new, and of
// all if there are other topics now. Those that nobody has any more are dropped. Kafka does so in
// the background, and gives a new member nothing until then.
func (c *change) resolve(before, after *subscription) error {
	g := c.g
	if before.Regex != "" && before.Regex != after.Regex && g.users[before.Regex] <= 1 && g.patterns[before.Regex] != nil {
		c.drop(before.Regex)
	}
	if g.topics == nil {
		return nil
	}
	exprs := make(map[string]bool)
	for expr := range g.patterns {
		exprs[expr] = !c.dropped[expr]
	}
	if after.Regex != "" {
		exprs[after.Regex] = true
	}
	for _, expr := range slices.Sorted(maps.Keys(exprs)) {
		if p := g.patterns[expr]; !exprs[expr] || p != nil && g.checked == g.topics.Version {
			continue
		}
		if err := c.match(expr); err != nil {
			return err
		}
	}
	return nil
}

// drop forgets an expression.
func (c *change) drop(expr string) {
	if c.dropped == nil {
		c.dropped = make(map[string]bool)
	}
	c.dropped[expr] = true
	c.g.emit(offsets.Record{Key: c.g.key(offsets.KeyRegularExpression, expr)})
}

// match resolves an expression to topics that the one who asks may know of, and stores it if the
// answer is a new one. Kafka: filterTopicDescribeAuthorizedTopics.
func (c *change) match(expr string) error {
	re, err := CompileRegex(expr)
	if err != nil {
		return err
	}
	p := &pattern{topics: []string{}, version: c.g.topics.Version, ms: c.now.UnixMilli()}
	for name := range c.g.topics.ByName {
		if re.MatchString(name) && (c.describes == nil || c.describes(name)) {
			p.topics = append(p.topics, name)
		}
	}
	slices.Sort(p.topics)
	if old := c.g.patterns[expr]; old != nil && slices.Equal(old.topics, p.topics) {
		return nil
	}
	if c.patterns == nil {
		c.patterns = make(map[string]*pattern)
	}
	c.patterns[expr] = p
	c.g.put(offsets.KeyRegularExpression, expr, &offsets.RegexValue{Topics: p.topics, Version: p.version, TimestampMs: p.ms})
	return nil
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
