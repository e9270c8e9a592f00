package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A printableWriter escapes control characters as Go strings do, as \x1b. Names come from clients,
// and a control character in one could move the cursor of a terminal, or hide or forge other lines.
// A newline ends a line only at the end of a Write; others are escaped.
type printableWriter struct{ w *bufio.Writer }

func (p printableWriter) Write(text []byte) (int, error) {
	n := len(text)
	end := ""
	if n > 0 && text[n-1] == '\n' {
		text, end = text[:n-1], "\n"
	}
	if isPlain(text) {
		_, _ = p.w.Write(text)
	} else {
		_, _ = p.w.WriteString(printable(string(text)))
	}
	_, err := p.w.WriteString(end) // bufio keeps the first error
	return n, err
}

// isPlain reports whether s has printable ASCII only.
func isPlain[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// printable returns s with escapes for control characters, formatting characters that change the
// direction of text, and bytes that are not UTF-8.
func printable(s string) string {
	if isPlain(s) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			out = append(out, s[i:i+size]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(out)
}

// printableLines applies printable to each line of s, such as joined errors. The lines after the
// first are indented, so that a newline in a name cannot forge a line.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n  ")
}

// printableJSON escapes the characters that encoding/json leaves unescaped but a terminal may act
// on. They occur only in strings, so the JSON value stays the same.
func printableJSON(p []byte) []byte {
	if isPlain(p) {
		return p
	}
	out := make([]byte, 0, len(p)+16)
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRune(p[i:])
		switch {
		case strconv.IsPrint(r):
			out = append(out, p[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return out
}
