package re2

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpressionsMatchAllOfAText(t *testing.T) {
	re, err := Compile("a|bc*", 100)
	require.NoError(t, err)
	for text, want := range map[string]bool{"a": true, "b": true, "bcc": true, "ab": false, "xa": false, "a\n": false, "": false} {
		require.Equal(t, want, re.MatchString(text), text)
	}
	// as in RE2/J
	for expr, text := range map[string]string{`\Qin`: "in", `in\Q`: "in", `\Qa.b`: "a.b", `a\Q.\E|\Qb)`: "b)"} {
		re, err := Compile(expr, 100)
		require.NoError(t, err, expr)
		require.True(t, re.MatchString(text), expr)
		require.False(t, re.MatchString(text+text), expr)
	}
	for _, expr := range []string{"a)|(b", "(", "a{2,1}", `\x`} {
		_, err := Compile(expr, 100)
		require.ErrorAs(t, err, new(*syntax.Error), expr)
	}
}

// TestProgramsAreMeasuredBeforeTheyAreCompiled compares the measure with compiled programs.
// Programs that are too large must not use memory.
func TestProgramsAreMeasuredBeforeTheyAreCompiled(t *testing.T) {
	for _, expr := range []string{"", "abc", "[a-z]", "(a|b)*", "(?:a*)*", "(a?b+){3,7}", "x{4}", "(x{0,9}){2,}", "a|bc|def|", `^\bé.(?i:k)$`, "(?:){5}", "(?:a|(b)){0}", "(a*){0,}", "a{0,1000}"} {
		parsed, err := syntax.Parse(expr, syntax.Perl)
		require.NoError(t, err, expr)
		program, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err, expr)
		require.LessOrEqual(t, len(program.Inst), instructions(parsed)+2, expr)
		require.LessOrEqual(t, instructions(parsed), 4*len(program.Inst), expr)
	}
	large := func(err error) bool {
		e := (*syntax.Error)(nil)
		return errors.As(err, &e) && e.Code == syntax.ErrLarge
	}
	_, err := Compile(strings.Repeat("a", 900), 1000)
	require.NoError(t, err)
	for _, expr := range []string{"(a{1000})", "((a{30}){30})", strings.Repeat("(a|b)*", 400)} {
		_, err := Compile(expr, 1000)
		require.True(t, large(err), "%v", err)
	}
	huge := strings.Repeat("(a{1000})", 1000)
	require.Less(t, testing.AllocsPerRun(1, func() {
		_, err := Compile(huge, 1000)
		require.True(t, large(err))
	}), 50_000.0, "a program of a million instructions is not made")
}
