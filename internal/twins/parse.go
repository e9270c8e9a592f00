package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// twin is one edit of the code and the tests that must notice it.
type twin struct {
	area   string // name of its file in rows, without .txt
	line   int    // of its first "row"
	rows   []string
	breaks string
	tests  []testName
	hangs  time.Duration // test timeout that counts as caught; 0: a timeout does not count
	edits  []edit
}

// edit replaces the lines old, which occur once in file, by the lines new.
type edit struct {
	file     string // path from the root, with slashes
	line     int    // of the edit in the file of twins
	old, new []string
}

// testName is a test as a twin writes it: package.Test or package.Test/subtest.
type testName struct{ pkg, name string }

func (n testName) String() string { return n.pkg + "." + n.name }

// top returns the name of the function, without a subtest.
func (n testName) top() string {
	name, _, _ := strings.Cut(n.name, "/")
	return name
}

func (t *twin) String() string { return fmt.Sprintf("%s.txt:%d", t.area, t.line) }

// text identifies a twin by its content, independent of its place in the file.
func (t *twin) text() string {
	var b strings.Builder
	fmt.Fprint(&b, t.rows, t.breaks, t.tests, t.hangs)
	for _, e := range t.edits {
		fmt.Fprintf(&b, "%s %q %q", e.file, e.old, e.new)
	}
	return b.String()
}

// readRows returns the twins of all files in dir, in the order of names and lines. The error joins
// all faults found.
func readRows(dir string) ([]*twin, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var all []*twin
	var errs []error
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		twins, err := parse(strings.TrimSuffix(filepath.Base(path), ".txt"), string(src))
		all = append(all, twins...)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

var (
	rowName     = regexp.MustCompile(`^(?:[A-Z]*[1-9][0-9]*|promise: .+)$`)
	testPattern = regexp.MustCompile(`^([a-z0-9_/]+)\.((?:Test|Example|Fuzz)\w*(?:/\S+)?)$`)
)

// parse reads one file of twins. It continues after a fault: the error joins all of them.
func parse(area, src string) ([]*twin, error) {
	p := rowParser{area: area}
	for text := range strings.Lines(src) {
		p.line++
		p.next(strings.TrimRight(text, "\r\n"))
	}
	p.finish()
	return p.twins, errors.Join(p.errs...)
}

type rowParser struct {
	area  string
	line  int
	twins []*twin
	errs  []error

	cur    *twin
	inEdit bool // the last edit of cur takes further lines
}

func (p *rowParser) complain(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s.txt:%d: %s", p.area, p.line, fmt.Sprintf(format, args...)))
}

func (p *rowParser) next(text string) {
	if text == "" {
		p.inEdit = false
		return
	}
	if p.inEdit && strings.ContainsRune("-+ \t", rune(text[0])) {
		p.editLine(text)
		return
	}
	if p.inEdit && strings.HasPrefix(text, "@@") {
		// the first @@ after file begins no further edit
		if last := p.cur.edits[len(p.cur.edits)-1]; len(last.old)+len(last.new) > 0 {
			p.beginEdit(last.file)
		}
		return
	}
	if text[0] == '#' {
		return
	}
	key, value, _ := strings.Cut(text, " ")
	value = strings.TrimSpace(value)
	if key == "row" {
		p.row(value)
		return
	}
	if p.cur == nil {
		p.complain("%q before the first row", key)
		return
	}
	switch key {
	case "breaks":
		p.cur.breaks = value
	case "test":
		p.test(value)
	case "hangs":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			p.complain("hangs wants a duration, not %q", value)
		}
		p.cur.hangs = d
	case "file":
		p.beginEdit(value)
	default:
		p.complain("%q is none of row, breaks, test, hangs, file, -, + (a kept line begins with a blank)", key)
	}
}

func (p *rowParser) row(value string) {
	if p.cur == nil || p.cur.breaks != "" || len(p.cur.edits) > 0 {
		p.finish()
		p.cur = &twin{area: p.area, line: p.line}
	}
	names := strings.Split(value, ",")
	if strings.HasPrefix(value, "promise: ") {
		names = []string{value}
	}
	for _, n := range names {
		n = strings.TrimSpace(n)
		if !rowName.MatchString(n) {
			p.complain("%q is no row", n)
		}
		p.cur.rows = append(p.cur.rows, n)
	}
}

func (p *rowParser) test(value string) {
	for n := range strings.SplitSeq(value, ",") {
		m := testPattern.FindStringSubmatch(strings.TrimSpace(n))
		if m == nil {
			p.complain("%q is not package.Test", n)
			continue
		}
		p.cur.tests = append(p.cur.tests, testName{m[1], m[2]})
	}
}

func (p *rowParser) beginEdit(file string) {
	if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || !filepath.IsLocal(file) {
		p.complain("%q is no Go file below the root that is not a test", file)
	}
	p.cur.edits = append(p.cur.edits, edit{file: file, line: p.line})
	p.inEdit = true
}

func (p *rowParser) editLine(text string) {
	e := &p.cur.edits[len(p.cur.edits)-1]
	kept := text[0] == ' ' || text[0] == '\t'
	if text[0] == '-' || kept {
		e.old = append(e.old, text[1:])
	}
	if text[0] == '+' || kept {
		e.new = append(e.new, text[1:])
	}
}

// finish ends the present twin: it checks it and adds it to twins.
func (p *rowParser) finish() {
	t := p.cur
	p.cur, p.inEdit = nil, false
	if t == nil {
		return
	}
	p.twins = append(p.twins, t)
	at := p.line
	defer func() { p.line = at }()
	p.line = t.line
	if t.breaks == "" {
		p.complain("no sentence after breaks")
	}
	if len(t.tests) == 0 {
		p.complain("no test")
	}
	if len(t.edits) == 0 {
		p.complain("no edit")
	}
	for _, e := range t.edits {
		p.line = e.line
		if len(e.old) == 0 {
			p.complain("an edit needs a line to take away or to keep")
		} else if slices.Equal(e.old, e.new) {
			p.complain("an edit changes nothing")
		}
	}
}
