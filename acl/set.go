package acl

import (
	"net/netip"
	"slices"
	"strings"
)

// A Set is an immutable collection of entries with an index. The zero Set is empty. The cost of a
// lookup depends on the number of distinct prefix lengths, not on the number of entries.
type Set struct {
	entries []Entry // in the order of Compare, each once
	types   [User + 1]index
	ipv6    bool // the host of an entry is an IPv6 address, which can be written in several ways
}

// An index has the entries of one type of resources.
type index struct {
	literal, prefixed map[string]rules // by the name of the pattern
	any               rules            // of the literal "*"; nil: there is none
	lengths           []int            // of the names in prefixed, ascending, each once
}

// rules are the rules of one pattern, by principal. They are not nil if the pattern has an entry
// for any principal: allow.everyone.if.no.acl.found depends on that.
type rules map[string][]rule

// A rule has the operations that the entries of one pattern and principal allow and deny to a host.
// The host "*" is any host.
type rule struct {
	host        string
	addr        netip.Addr // of host if that is an IPv6 address
	allow, deny Operations
}

// isFor reports whether the rule is for a host with that address, which is compared only for
// IPv6: Java writes ::1 as 0:0:0:0:0:0:0:1.
func (r *rule) isFor(host string, addr netip.Addr) bool {
	return r.host == Wildcard || r.host == host || r.addr.IsValid() && r.addr == addr
}

// ipv6 returns the address that an entry's host is if it is written as one of IPv6, else the zero
// Addr. An IPv4 address in one of IPv6 is the IPv4 address, as in Java.
func ipv6(host string) netip.Addr {
	if !strings.Contains(host, ":") {
		return netip.Addr{}
	}
	return addressOf(host)
}

func addressOf(host string) netip.Addr {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// NewSet returns the set of the given entries, which must be valid (Entry.Validate). Duplicates
// count once.
func NewSet(entries ...Entry) *Set {
	s := &Set{entries: slices.Compact(Sorted(entries))}
	for _, e := range s.entries {
		s.types[e.ResourceType].add(e)
		s.ipv6 = s.ipv6 || ipv6(e.Host).IsValid()
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
	rs := (*by)[e.ResourceName]
	if rs == nil {
		rs = rules{}
		(*by)[e.ResourceName] = rs
	}
	rs.add(e)
	if e.PatternType == Literal && e.ResourceName == Wildcard {
		x.any = rs
	}
}

func (s rules) add(e Entry) {
	of := s[e.Principal]
	at := slices.IndexFunc(of, func(r rule) bool { return r.host == e.Host })
	if at < 0 {
		of, at = append(of, rule{host: e.Host, addr: ipv6(e.Host)}), len(of)
	}
	if e.Permission == Deny {
		of[at].deny |= denied(e.Operation)
	} else {
		of[at].allow |= allowed(e.Operation)
	}
	s[e.Principal] = of
}

// denied returns the operations that an entry denies: no others are implied.
func denied(o Operation) Operations {
	if o == All {
		return everyOperation
	}
	return 1 << o
}

// allowed returns the operations that an entry allows, with the implied ones.
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

// Matching returns the entries selected by f, in the order of Entry.Compare. The caller owns the
// result.
func (s *Set) Matching(f Filter) (found []Entry) {
	for _, e := range s.entries {
		if f.Matches(e) {
			found = append(found, e)
		}
	}
	return found
}

// Client identifies the origin of a request: a principal, such as "User:alice", and its address. An
// IPv6 address may be written in any form.
type Client struct{ Principal, Host string }

// address returns the address of the client's host if an entry can have it in another form.
func (s *Set) address(client Client) netip.Addr {
	if !s.ipv6 {
		return netip.Addr{}
	}
	return addressOf(client.Host)
}

// A Resource is one resource, by type and name.
type Resource struct {
	Type ResourceType
	Name string
}

// A decision has the operations on a resource that the entries allow and deny to one principal.
type decision struct {
	allow, deny Operations
	covered     bool // the resource has an entry, for this or another principal
}

// lookup applies all entries for a resource.
func (s *Set) lookup(client Client, r Resource) (d decision) {
	if r.Type < 0 || r.Type > User {
		return d
	}
	x, addr := &s.types[r.Type], s.address(client)
	if rs := x.literal[r.Name]; rs != nil {
		d.take(rs, client, addr)
	}
	if x.any != nil {
		d.take(x.any, client, addr) // again if that is the resource's name: the result is the same
	}
	for _, n := range x.lengths {
		if n > len(r.Name) {
			break
		}
		if rs := x.prefixed[r.Name[:n]]; rs != nil {
			d.take(rs, client, addr)
		}
	}
	return d
}

func (d *decision) take(rs rules, client Client, addr netip.Addr) {
	d.covered = true
	d.collect(rs[client.Principal], client.Host, addr)
	d.collect(rs[AnyPrincipal], client.Host, addr)
}

func (d *decision) collect(of []rule, host string, addr netip.Addr) {
	for i := range of {
		if r := &of[i]; r.isFor(host, addr) {
			d.allow |= r.allow
			d.deny |= r.deny
		}
	}
}

// A pattern selects resources of one type by their names.
type pattern struct {
	kind PatternType
	name string
}

// allowsSome reports whether entries for o or All allow it on at least one resource of a type: an
// entry allows it, and none denies it for the same name or a prefix. Kafka:
// Authorizer.authorizeByResourceType.
func (s *Set) allowsSome(client Client, o Operation, t ResourceType) bool {
	denies := map[pattern]bool{}
	var allows []pattern
	addr := s.address(client)
	for _, e := range s.entries {
		host := rule{host: e.Host, addr: ipv6(e.Host)}
		if e.ResourceType != t || !host.isFor(client.Host, addr) || e.Principal != client.Principal && e.Principal != AnyPrincipal ||
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

// isDominated reports whether entries deny all that the pattern p allows.
func (s *Set) isDominated(t ResourceType, p pattern, denies map[pattern]bool) bool {
	if p.kind == Literal && denies[p] {
		return true
	}
	return slices.ContainsFunc(s.types[t].lengths, func(n int) bool { return n <= len(p.name) && denies[pattern{Prefixed, p.name[:n]}] })
}
