// Package transcript runs scripts against state machines, for their tests. testdata/*.txt show the
// effects of each event on a machine, so that a diff shows a change of the protocol.
//
// A line that begins with "> " is a command; the lines after it are its output, and are compared.
// Lines that begin with "#", and empty ones, stay. With -update the files are rewritten.
package transcript

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// An Output is the output of a script so far.
type Output struct{ buf bytes.Buffer }

// Printf adds an indented line.
func (o *Output) Printf(format string, args ...any) {
	fmt.Fprintf(&o.buf, "  "+format+"\n", args...)
}

// Run runs each script. For each it calls start, which returns a function that runs one command,
// given as words, and prints the output by Printf.
func Run(t *testing.T, start func(t testing.TB, out *Output) (command func(words []string))) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out Output
			got := play(string(script), &out, start(t, &out))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if string(got) != string(script) {
				t.Fatalf("%s differs:\n%s", file, difference(string(script), string(got)))
			}
		})
	}
}

func play(script string, out *Output, command func([]string)) []byte {
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"), line == "":
			out.buf.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			out.buf.WriteString(line + "\n")
			command(strings.Fields(line[2:]))
		}
	}
	return out.buf.Bytes()
}

// difference shows the first line that differs, with the lines around it.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	around := func(lines []string) string {
		return strings.Join(lines[min(max(i-3, 0), len(lines)):min(i+4, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1, around(a), around(b))
}

// Words separates the words after a command's name. Words of the form NAME=VALUE go to opts, the
// rest to pos.
func Words(words []string) (pos []string, opts map[string]string) {
	pos, opts = []string{}, map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			opts[k] = v
		} else {
			pos = append(pos, w)
		}
	}
	return pos, opts
}
