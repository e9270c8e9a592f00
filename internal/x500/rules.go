package x500

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrInvalidRules is matched by errors about a malformed list of rules.
var ErrInvalidRules = errors.New("x500: invalid mapping rules")

// Rules turn distinguished names into shorter ones. The zero value leaves them as they are.
type Rules struct{ rules []rule }

// rule is one of Rules; without a pattern it is DEFAULT.
type rule struct {
	pattern     *regexp.Regexp
	whole       *regexp.Regexp // pattern, anchored to match a whole name
	replacement []part
	letters     byte // L: to lower case, U: to upper case; 0: unchanged
}

// part is a piece of a replacement: text, or the match of one of the pattern's groups.
type part struct {
	text  string
	group int // number of the group; -1: text
}

// ParseRules reads rules in the format of Kafka's ssl.principal.mapping.rules. They are separated
// by commas. Each is DEFAULT, or RULE:pattern/replacement/ with an optional L or U at its end for
// lower or upper case. The empty text is DEFAULT. Patterns are of package regexp, which has no back
// references and no lookaround; Kafka's are of Java. The error matches ErrInvalidRules.
func ParseRules(text string) (Rules, error) {
	var rs Rules
	for rest := strings.TrimSpace(text); rest != ""; {
		if rest[0] == ',' { // an empty rule
			rest = strings.TrimSpace(rest[1:])
			continue
		}
		var r rule
		var err error
		if r, rest, err = nextRule(rest); err != nil {
			return Rules{}, fmt.Errorf("%w: %w", ErrInvalidRules, err)
		}
		rs.rules = append(rs.rules, r)
		rest = strings.TrimSpace(rest)
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return Rules{}, fmt.Errorf("%w: %q behind a rule", ErrInvalidRules, rest)
		}
		rest = strings.TrimSpace(rest[1:])
	}
	return rs, nil
}

// nextRule reads one rule at the beginning of text.
func nextRule(text string) (r rule, rest string, err error) {
	if after, ok := strings.CutPrefix(text, "DEFAULT"); ok {
		return rule{}, after, nil
	}
	after, ok := strings.CutPrefix(text, "RULE:")
	if !ok {
		return r, "", fmt.Errorf("%q is neither DEFAULT nor RULE:pattern/replacement/", text)
	}
	pattern, after, ok := cutUnescaped(after)
	if !ok {
		return r, "", fmt.Errorf("the pattern of %q does not end", text)
	}
	replacement, after, ok := cutUnescaped(after)
	if !ok {
		return r, "", fmt.Errorf("the replacement of %q does not end", text)
	}
	if after != "" && (after[0] == 'L' || after[0] == 'U') {
		r.letters, after = after[0], after[1:]
	}
	if r.pattern, err = regexp.Compile(pattern); err != nil {
		return r, "", err
	}
	if r.whole, err = regexp.Compile(`\A(?:` + pattern + `)\z`); err != nil {
		return r, "", err
	}
	r.replacement, err = parseReplacement(replacement, r.pattern.NumSubexp())
	return r, after, err
}

// cutUnescaped cuts text at the first slash that has no backslash before it.
func cutUnescaped(text string) (before, after string, ok bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '/':
			return text[:i], text[i+1:], true
		}
	}
	return "", "", false
}

// parseReplacement reads a replacement as Java's Matcher.replaceAll does. $n is a group: n has as
// many digits as give the number of an existing group. A backslash makes the next character text.
// As in Kafka, a group that the pattern does not have is text, unless the pattern has no groups at
// all.
func parseReplacement(text string, groups int) (parts []part, err error) {
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			parts = append(parts, part{plain.String(), -1})
			plain.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			if i++; i == len(text) {
				return nil, errors.New("a backslash at the end of a replacement")
			}
			plain.WriteByte(text[i])
		case c != '$':
			plain.WriteByte(c)
		case i+1 == len(text) || text[i+1] < '0' || text[i+1] > '9':
			return nil, errors.New("a $ without a number in a replacement")
		default:
			i++
			group := int(text[i] - '0')
			if group > groups {
				if groups == 0 {
					return nil, fmt.Errorf("there is no group %d", group)
				}
				plain.WriteByte('$')
				plain.WriteByte(text[i])
				continue
			}
			for i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9' && 10*group+int(text[i+1]-'0') <= groups {
				i++
				group = 10*group + int(text[i]-'0')
			}
			flush()
			parts = append(parts, part{"", group})
		}
	}
	flush()
	return parts, nil
}

// Apply returns the result of the first rule that matches all of name; ok is false if none does.
// Kafka: SslPrincipalMapper.getName.
func (rs Rules) Apply(name string) (string, bool) {
	if len(rs.rules) == 0 {
		return name, true
	}
	for _, r := range rs.rules {
		if r.pattern == nil {
			return name, true
		}
		if r.whole.MatchString(name) {
			return r.replace(name), true
		}
	}
	return "", false
}

// replace replaces each match of the pattern in name.
func (r rule) replace(name string) string {
	var b strings.Builder
	at := 0
	for _, m := range r.pattern.FindAllStringSubmatchIndex(name, -1) {
		b.WriteString(name[at:m[0]])
		for _, p := range r.replacement {
			switch {
			case p.group < 0:
				b.WriteString(p.text)
			case m[2*p.group] >= 0:
				b.WriteString(name[m[2*p.group]:m[2*p.group+1]])
			}
		}
		at = m[1]
	}
	b.WriteString(name[at:])
	switch r.letters {
	case 'L':
		return strings.ToLower(b.String())
	case 'U':
		return strings.ToUpper(b.String())
	}
	return b.String()
}
