// Package pages reads Markdown pages of this repository, so that tests can run their commands,
// compare the printed output, and compare their code with the tested source.
//
// A console block has commands, each on a line that begins with "$ ", and below each command its
// output. The comment `<!-- from FILE -->` before a block names the file of the repository that has
// the same text. The comment `<!-- file NAME -->` before a block means that the reader saves the
// block as NAME in the current directory.
package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// A Block is a fenced block of a page.
type Block struct {
	Line     int    // line of the opening fence, from 1
	Language string // "" if the fence names none
	From     string // file of the repository with the same text, relative to its root; "" if none
	File     string // file that the reader writes; "" if none
	Text     string // without the fences; ends with a newline unless it is empty
}

var marker = regexp.MustCompile(`^<!-- (from|file) (\S+) -->$`)

// Blocks returns the fenced blocks of a page, in order. A fence that is never closed is an error.
func Blocks(page string) ([]Block, error) {
	var blocks []Block
	var b *Block
	var text strings.Builder
	before := ""
	for i, line := range strings.Split(page, "\n") {
		switch {
		case b == nil && strings.HasPrefix(line, "```"):
			b = &Block{Line: i + 1, Language: strings.TrimPrefix(line, "```")}
			if m := marker.FindStringSubmatch(before); m != nil && m[1] == "from" {
				b.From = m[2]
			} else if m != nil {
				b.File = m[2]
			}
			text.Reset()
		case b != nil && line == "```":
			b.Text = text.String()
			blocks = append(blocks, *b)
			b = nil
		case b != nil:
			text.WriteString(line + "\n")
		}
		before = line
	}
	if b != nil {
		return nil, fmt.Errorf("line %d: the block is not closed", b.Line)
	}
	return blocks, nil
}

// A Command is one command of a console block.
type Command struct {
	Line   int    // line of the page, from 1
	Text   string // shell command; a line that ends with a backslash continues on the next
	Output []string
}

// Commands returns the commands of a console block, in order. Output before the first command is an
// error.
func Commands(b Block) ([]Command, error) {
	var all []Command
	continues := false
	for i, line := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
		text, begins := strings.CutPrefix(line, "$ ")
		switch {
		case continues:
			all[len(all)-1].Text += "\n" + line
		case begins:
			all = append(all, Command{Line: b.Line + 1 + i, Text: text})
		case len(all) == 0:
			return nil, fmt.Errorf("line %d: output without a command", b.Line+1+i)
		default:
			last := &all[len(all)-1]
			last.Output = append(last.Output, line)
		}
		continues = (begins || continues) && strings.HasSuffix(line, `\`)
	}
	return all, nil
}

// varying matches the parts of an output that differ between two runs: times of day, durations and
// the 22 characters of a random id.
var varying = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|` +
	`\b\d+(?:\.\d+)?(?:ns|µs|us|ms|s)\b|[A-Za-z0-9_-]{22}\b`)

// Match compares an output with the lines that a page shows. Times, durations and random ids may
// differ. A line "..." of the page stands for any number of lines, "..." within a line for any text.
func Match(want []string, got string) error {
	var lines []string
	if got != "" {
		lines = strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	}
	if !matchLines(want, lines) {
		return fmt.Errorf("the page shows\n%s\nthe command printed\n%s", strings.Join(want, "\n"), got)
	}
	return nil
}

func matchLines(want, got []string) bool {
	for i, w := range want {
		if w == "..." {
			for skip := 0; i+skip <= len(got); skip++ {
				if matchLines(want[i+1:], got[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || !matchLine(w, got[i]) {
			return false
		}
	}
	return len(want) == len(got)
}

func matchLine(want, got string) bool {
	normal := func(line string) string { return strings.TrimRight(varying.ReplaceAllString(line, "~"), " ") }
	parts := strings.Split(normal(want), "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(normal(got))
}
