package explore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Script is a world and the operations in it, one line each. Parse reads its text.
//
//	world logs=2 shared=1 share=1 journal=4096 sync=ack cleanup=delete segment=3000 delay=0
//	append 0 n=3
//	clean 1 @7 truncate 1 n=4        the second operation begins at the 7th call of the first
//	crash kind=torn seed=99
type Script struct {
	World Args
	Ops   []Op
}

// An Op is one operation, by its verb, on a log (-1: on the world). If At is not 0, another
// operation begins during it.
type Op struct {
	Verb string
	Log  int
	Args Args
	At   int // the call of the file system at which Mid begins
	Mid  *Op
}

// Args are named numbers and words.
type Args map[string]string

// Int returns the number with a name, or 0 if there is none.
func (a Args) Int(name string) int64 {
	n, _ := strconv.ParseInt(a[name], 10, 64) // Parse has checked that it is a word or a number
	return n
}

func (a Args) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		out = append(out, name+"="+a[name])
	}
	return strings.Join(out, " ")
}

func (o Op) String() string {
	words := []string{o.Verb}
	if o.Log >= 0 {
		words = append(words, strconv.Itoa(o.Log))
	}
	if len(o.Args) > 0 {
		words = append(words, o.Args.String())
	}
	if o.Mid != nil {
		words = append(words, "@"+strconv.Itoa(o.At), o.Mid.String())
	}
	return strings.Join(words, " ")
}

func (s *Script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world %s\n", s.World)
	for _, o := range s.Ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

// Parse parses a script. Empty lines and lines that begin with # are ignored.
func Parse(text string) (*Script, error) {
	s := &Script{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		o, err := parseOp(words)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		if o.Verb == "world" {
			s.World = o.Args
			continue
		}
		s.Ops = append(s.Ops, *o)
	}
	if s.World == nil {
		return nil, fmt.Errorf("a script begins with a world")
	}
	return s, nil
}

func parseOp(words []string) (*Op, error) {
	o := &Op{Verb: words[0], Log: -1, Args: Args{}}
	for i, w := range words[1:] {
		name, value, pair := strings.Cut(w, "=")
		n, err := strconv.Atoi(strings.TrimPrefix(w, "@"))
		switch {
		case pair:
			o.Args[name] = value
		case err != nil:
			return nil, fmt.Errorf("%q is no name=value, log or @call", w)
		case w[0] == '@':
			if len(words) < i+3 {
				return nil, fmt.Errorf("nothing happens at call %d", n)
			}
			var err error
			o.At = n
			o.Mid, err = parseOp(words[i+2:])
			return o, err
		default:
			o.Log = n
		}
	}
	if verb(o.Verb) == nil && o.Verb != "world" {
		return nil, fmt.Errorf("unknown operation %q", o.Verb)
	}
	return o, nil
}
