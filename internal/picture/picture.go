// Package picture draws the history of a cluster or a test as SVG, from plain values. It has no
// clock and no I/O.
//
// A picture uses classes for its colours. Style is the stylesheet; a page that contains pictures
// includes it.
package picture

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Style is the stylesheet of all pictures, for light and dark pages.
//
//go:embed picture.css
var Style string

// text escapes s for SVG and HTML. Characters that XML does not have are replaced.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return '�'
		}
		return r
	}, s)
	return html.EscapeString(s)
}

// cut shortens s to about n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

// px is a coordinate as text, with one digit after the point if it needs one.
func px(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
