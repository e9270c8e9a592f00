package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("list", false, "print each phrase of the directories that are named")
	class := flag.String("class", "", "with -list: only comments, exported, errors, texts or pages")
	per := flag.Bool("per", false, "phrases per 1,000 lines")
	lower := flag.Bool("lower", false, "lower the budget to the present counts")
	flag.Parse()
	if err := run(os.Stdout, *list, *per, *class, *lower, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

const budgetFile = "internal/prose/budget.txt"

func run(w io.Writer, list, per bool, class string, lower bool, dirs []string) error {
	f, err := below(".")
	if err != nil {
		return err
	}
	if list {
		for _, p := range f.places {
			dir := filepath.ToSlash(filepath.Dir(p.file))
			if slices.Contains(dirs, dir) && (p.class == class || class == "" && p.class != "exported") {
				fmt.Fprintln(w, p)
			}
		}
		return nil
	}
	present := count(f.places)
	if per {
		for k, n := range present {
			for i := range n {
				n[i] = n[i] * 1000 / f.lines[k]
			}
			present[k] = n
		}
	}
	if lower {
		budget, err := readBudget(budgetFile)
		if err != nil {
			return err
		}
		return os.WriteFile(budgetFile, budget.lowered(present).text(), 0o644)
	}
	_, err = w.Write(present.text())
	return err
}

func (p place) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", p.file, p.line, kinds[p.kind].name, p.phrase, p.text)
}

// below returns the phrases of all files of the module at root, including nested modules. Tests,
// testdata and generated files are left out.
func below(root string) (found, error) {
	f := found{lines: map[key]int{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == ".git" || name == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(path); ext != ".md" && ext != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil || bytes.HasPrefix(src, []byte("// Code generated")) {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if strings.HasPrefix(rel, "internal/prose/") { // names the phrases
			return nil
		}
		return f.addFile(rel, src)
	})
	return f, err
}

// key is a directory and a class of places in it.
type key struct{ dir, class string }

// counts has the number of phrases of each kind.
type counts map[key][4]int

func count(places []place) counts {
	c := counts{}
	for _, p := range places {
		k := key{filepath.ToSlash(filepath.Dir(p.file)), p.class}
		n := c[k]
		n[p.kind]++
		c[k] = n
	}
	return c
}

// lowered returns the lesser of c and present.
func (c counts) lowered(present counts) counts {
	out := counts{}
	for k, n := range c {
		for i := range n {
			n[i] = min(n[i], present[k][i])
		}
		if n != [4]int{} {
			out[k] = n
		}
	}
	return out
}

// text returns a line for each directory and class.
func (c counts) text() []byte {
	var b bytes.Buffer
	b.WriteString("# directory class headless speech nobody odd\n")
	keys := slices.SortedFunc(maps.Keys(c), func(a, b key) int {
		return strings.Compare(a.dir+" "+a.class, b.dir+" "+b.class)
	})
	for _, k := range keys {
		n := c[k]
		fmt.Fprintf(&b, "%s %s %d %d %d %d\n", k.dir, k.class, n[0], n[1], n[2], n[3])
	}
	return b.Bytes()
}

func readBudget(name string) (counts, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := counts{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var k key
		var n [4]int
		if _, err := fmt.Sscan(lines.Text(), &k.dir, &k.class, &n[0], &n[1], &n[2], &n[3]); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
		}
		c[k] = n
	}
	return c, lines.Err()
}
