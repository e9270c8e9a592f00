// Command examples lists the examples of this directory in the order in which to read them.
//
//	go run ./examples
package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed README.md
var readme string

func main() {
	if err := list(os.Stdout, readme); err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
		os.Exit(1)
	}
}

// list prints the sections and rows of the page.
func list(w io.Writer, page string) error {
	var out strings.Builder
	out.WriteString("Run one with go run ./examples/NAME\n")
	for line := range strings.SplitSeq(page, "\n") {
		if section, ok := strings.CutPrefix(line, "## "); ok {
			fmt.Fprintf(&out, "\n%s\n", section)
		}
		row, ok := strings.CutPrefix(line, "| [")
		if !ok {
			continue
		}
		name, rest, _ := strings.Cut(row, "](")
		_, learn, _ := strings.Cut(rest, ") | ")
		fmt.Fprintf(&out, "  %-13s %s\n", name, strings.TrimSuffix(learn, " |"))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
