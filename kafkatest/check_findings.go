package kafkatest

import (
	"fmt"
	"slices"
	"strings"
)

// findings compares the records found with the expected ones.
type findings struct {
	ranks     map[string]int // order of the expected records, by name
	times     map[string]int // number of times each was found, by name
	highest   map[int32]string
	doubled   []string
	reordered []string
	altered   []string
	unknown   []string
	early     []string // acknowledged before that was the result of the work
	anyOrder  bool     // a record that is found after a later one is no finding
	mayRepeat bool     // a record that is found again is no finding
	failed    string   // another failure of the code; empty: none
}

func newFindings() *findings {
	return &findings{ranks: map[string]int{}, times: map[string]int{}, highest: map[int32]string{}}
}

// expect adds an expected record. It must come after the records of its partition with a lower
// rank.
func (f *findings) expect(name string, rank int) { f.ranks[name] = rank }

// add adds a record found.
func (f *findings) add(partition int32, name string) {
	rank, ok := f.ranks[name]
	if !ok {
		f.unknown = append(f.unknown, fmt.Sprintf("%q", name))
		return
	}
	if f.times[name]++; f.times[name] > 1 {
		f.doubled = append(f.doubled, name)
		return
	}
	before, any := f.highest[partition]
	if any && f.ranks[before] > rank {
		f.reordered = append(f.reordered, fmt.Sprintf("%s after %s", name, before))
		return
	}
	f.highest[partition] = name
}

// missing returns the number of expected records not found.
func (f *findings) missing() int { return len(f.ranks) - len(f.times) }

// text describes the findings and the last requests. It is empty if there are no findings.
func (f *findings) text(s *Server) string {
	var parts []string
	say := func(what string, names []string) {
		const most = 5
		n := len(names)
		if n == 0 {
			return
		}
		if n > most {
			names = append(slices.Clone(names[:most]), "...")
		}
		parts = append(parts, fmt.Sprintf("%s %d of %d: %s", what, n, len(f.ranks), strings.Join(names, ", ")))
	}
	var lost []string
	for name := range f.ranks {
		if f.times[name] == 0 {
			lost = append(lost, name)
		}
	}
	slices.SortFunc(lost, func(a, b string) int { return f.ranks[a] - f.ranks[b] })
	if f.failed != "" {
		parts = append(parts, f.failed)
	}
	say("lost", lost)
	if !f.mayRepeat {
		say("doubled", f.doubled)
	}
	if !f.anyOrder {
		say("reordered", f.reordered)
	}
	say("altered", f.altered)
	say("acknowledged too early", f.early)
	say("not known", f.unknown)
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + "\n" + s.dump()
}
