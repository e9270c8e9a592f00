package acl

import "slices"

// A Set is an immutable collection of entries with an index. The zero Set is empty. What a question
// costs depends on how many lengths of prefixes there are, not on how many entries.
type Set struct {
	entries []Entry // in the order of Compare, each once
	types   [User + 1]index
}

// An index has the entries of one type of resources.
type index struct {
	literal, prefixed map[string]rules // by the name of the pattern
	any               rules            // of the literal "*"; nil: there is none
	lengths           []int            // of the names in prefixed, ascending, each once
}

// rules are what the entries of one pattern say, by principal. Not nil if there is an entry, for
// whomever: allow.everyone.if.no.acl.found asks that.
type rules map[string][]rule

// A rule is what the entries of one pattern and principal allow and deny to a host, "*" to any.
type rule struct {
	host        string
	allow, deny Operations
}

// NewSet returns the set of some entries, which must be valid (Entry.Validate). Entries that are
// there twice count once.
func NewSet(entries ...Entry) *Set {
	s := &Set{entries: slices.Compact(Sorted(entries))}
	for _, e := range s.entries {
		s.types[e.ResourceType].add(e)
	}
	return s
}

func (x *index) add(e Entry) {
	by := &x.literal
	if e.PatternType == Prefixed {
		by = &x.prefixed
		if at, found := slices.BinarySearch(x.lengths, len(e.ResourceName)); !found {
			x.lengths = slices.Insert(x.lengths, at, len(e.ResourceName))
		}
	}
	if *by == nil {
		*by = map[string]rules{}
	}
	said := (*by)[e.ResourceName]
	if said == nil {
		said = rules{}
		(*by)[e.ResourceName] = said
	}
	said.add(e)
	if e.PatternType == Literal && e.ResourceName == Wildcard {
		x.any = said
	}
}

func (s rules) add(e Entry) {
	of := s[e.Principal]
	at := slices.IndexFunc(of, func(r rule) bool { return r.host == e.Host })
	if at < 0 {
		of, at = append(of, rule{host: e.Host}), len(of)
	}
	if e.Permission == Deny {
		of[at].deny |= denied(e.Operation)
	} else {
		of[at].allow |= allowed(e.Operation)
	}
	s[e.Principal] = of
}

// denied are the operations that an entry denies: no others are implied.
func denied(o Operation) Operations {
	if o == All {
		return everyOperation
	}
	return 1 << o
}

// allowed are the operations that an entry allows, with those that it implies.
func allowed(o Operation) Operations {
	switch o {
	case All:
		return everyOperation
	case Read, Write, Delete, Alter:
		return 1<<o | 1<<Describe
	case AlterConfigs:
		return 1<<o | 1<<DescribeConfigs
	}
	return 1 << o
}

// Len returns the number of entries.
func (s *Set) Len() int { return len(s.entries) }

// Matching returns the entries that a filter means, in the order of Entry.Compare. The caller owns
// the result.
func (s *Set) Matching(f Filter) (found []Entry) {
	for _, e := range s.entries {
		if f.Matches(e) {
			found = append(found, e)
		}
	}
	return found
}

// Who asks: a principal, as "User:alice", and the address that it asks from.
type Who struct{ Principal, Host string }

// A Resource is what is asked about: one thing, by its name.
type Resource struct {
	Type ResourceType
	Name string
}

// An answer is what entries say of a resource to somebody.
type answer struct {
	allow, deny Operations
	about       bool // an entry is about the resource, whomever it is for
}

// ask returns what the entries say of a resource.
func (s *Set) ask(who Who, r Resource) (a answer) {
	if r.Type < 0 || r.Type > User {
		return a
	}
	x := &s.types[r.Type]
	if said := x.literal[r.Name]; said != nil {
		a.take(said, who)
	}
	if x.any != nil {
		a.take(x.any, who) // once more if that is its name: it says the same
	}
	for _, n := range x.lengths {
		if n > len(r.Name) {
			break
		}
		if said := x.prefixed[r.Name[:n]]; said != nil {
			a.take(said, who)
		}
	}
	return a
}

func (a *answer) take(said rules, who Who) {
	a.about = true
	a.collect(said[who.Principal], who.Host)
	a.collect(said[Everybody], who.Host)
}

func (a *answer) collect(of []rule, host string) {
	for _, r := range of {
		if r.host == Wildcard || r.host == host {
			a.allow |= r.allow
			a.deny |= r.deny
		}
	}
}

// A pattern is the name of resources that an entry is about, of one type.
type pattern struct {
	kind PatternType
	name string
}

// allowsSome reports whether the entries allow an operation, just as they name it, on one resource
// of a type at least: one that is allowed and not denied, itself or by a prefix. Kafka:
// Authorizer.authorizeByResourceType.
func (s *Set) allowsSome(who Who, o Operation, t ResourceType) bool {
	denies := map[pattern]bool{}
	var allows []pattern
	for _, e := range s.entries {
		if e.ResourceType != t || e.Host != who.Host && e.Host != Wildcard || e.Principal != who.Principal && e.Principal != Everybody ||
			e.Operation != o && e.Operation != All {
			continue
		}
		p := pattern{e.PatternType, e.ResourceName}
		if e.Permission == Allow {
			allows = append(allows, p)
		} else {
			denies[p] = true
		}
	}
	all := pattern{Literal, Wildcard}
	switch {
	case denies[all]:
		return false
	case slices.Contains(allows, all):
		return true
	}
	return slices.ContainsFunc(allows, func(p pattern) bool { return !s.isDominated(t, p, denies) })
}

// isDominated reports whether what a pattern allows is denied as a whole.
func (s *Set) isDominated(t ResourceType, p pattern, denies map[pattern]bool) bool {
	if p.kind == Literal && denies[p] {
		return true
	}
	return slices.ContainsFunc(s.types[t].lengths, func(n int) bool { return n <= len(p.name) && denies[pattern{Prefixed, p.name[:n]}] })
}
