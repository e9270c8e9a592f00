package main

import "strings"

// row appends one row of a table. Bars in a cell are escaped.
func row(b *strings.Builder, cells ...string) {
	b.WriteString("|")
	for _, c := range cells {
		b.WriteString(" " + strings.ReplaceAll(c, "|", `\|`) + " |")
	}
	b.WriteString("\n")
}

// code returns text in backticks, and "" for "".
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// firstSentence returns text up to its first full stop that ends a sentence. "compact: ..." and
// numbers with a point are no ends.
func firstSentence(text string) string {
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}
