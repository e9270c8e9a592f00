// Package re2 compiles regular expressions that clients send: RE2's syntax, as Kafka's RE2/J has
// it, of the whole of a text. Such an expression takes no more time and memory than its program is
// large, and a few bytes of repetitions make a program of many megabytes: hence it is measured
// before it is compiled.
package re2

import (
	"regexp"
	"regexp/syntax"
)

// Compile returns an expression that all of a text must match. The error is a *syntax.Error; its
// code is syntax.ErrLarge if the program would have more than about maxInstructions.
func Compile(expr string, maxInstructions int) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expr, syntax.Perl) // "a)|(b" is none, though it is within brackets
	if err != nil {
		return nil, err
	}
	if instructions(parsed) > maxInstructions {
		return nil, &syntax.Error{Code: syntax.ErrLarge, Expr: expr}
	}
	whole, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil { // it ends within a quotation, which a \Q has begun
		whole, err = regexp.Compile(`\A(?:` + expr + `\E)\z`)
	}
	return whole, err
}

// Instructions returns about how many instructions the program of an expression has, and never
// fewer; 0 if the expression is invalid.
func Instructions(expr string) int {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(parsed)
}

// instructions returns about how many instructions the program of an expression has, and never
// fewer. It cannot overflow: the parser refuses what is repeated more than 1000 times in all, and
// an expression is no longer than a request.
func instructions(re *syntax.Regexp) int {
	subs := 0
	for _, sub := range re.Sub {
		subs += instructions(sub) + 1
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune) + 1
	case syntax.OpRepeat:
		copies := re.Max
		if copies < 0 { // without end
			copies = re.Min + 1
		}
		return copies*subs + 1
	}
	return subs + 2
}
