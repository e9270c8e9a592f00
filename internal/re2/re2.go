// Package re2 compiles regular expressions that clients send. They have RE2's syntax, as in Kafka's
// RE2/J, and must match the whole of a text. The size of its program bounds the time and memory of
// an expression. A few bytes of repetitions can result in many megabytes, so the size is estimated
// before compiling.
package re2

import (
	"regexp"
	"regexp/syntax"
)

// Compile returns an expression that all of a text must match. The error is a *syntax.Error; its
// code is syntax.ErrLarge if the program would have more than about maxInstructions.
func Compile(expr string, maxInstructions int) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expr, syntax.Perl) // rejects "a)|(b", which brackets would hide
	if err != nil {
		return nil, err
	}
	if instructions(parsed) > maxInstructions {
		return nil, &syntax.Error{Code: syntax.ErrLarge, Expr: expr}
	}
	whole, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil { // expr ends within a quotation that \Q has begun
		whole, err = regexp.Compile(`\A(?:` + expr + `\E)\z`)
	}
	return whole, err
}

// Instructions returns an upper estimate of the number of instructions in the program of an
// expression; 0 if the expression is invalid.
func Instructions(expr string) int {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(parsed)
}

// instructions returns an upper estimate of the number of instructions in the program of an
// expression. It cannot overflow: the parser rejects more than 1000 repetitions in all, and an
// expression is no longer than a request.
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
		if copies < 0 { // no upper bound
			copies = re.Min + 1
		}
		return copies*subs + 1
	}
	return subs + 2
}
