package acl

// A Policy is what an authorizer goes by besides entries. The zero Policy denies what no entry
// allows, to everybody.
type Policy struct {
	// SuperUsers may do anything, whatever entries say: principals as "User:admin". Kafka:
	// super.users.
	SuperUsers []string

	// AllowEveryoneIfNoACL allows everybody what is done to resources that no entry is about.
	// Kafka: allow.everyone.if.no.acl.found.
	AllowEveryoneIfNoACL bool
}

// Validate returns an *InvalidError for a super user that no principal could be.
func (p Policy) Validate() error {
	for _, u := range p.SuperUsers {
		if err := validatePrincipal(u); err != nil {
			return err
		}
	}
	return nil
}

// With returns an authorizer that goes by the policy and the entries of a set, nil for none.
func (p Policy) With(s *Set) *Authorizer {
	if s == nil {
		s = NewSet()
	}
	a := &Authorizer{set: s, super: make(map[string]struct{}, len(p.SuperUsers)), open: p.AllowEveryoneIfNoACL}
	for _, u := range p.SuperUsers {
		a.super[u] = struct{}{}
	}
	return a
}

// An Authorizer answers who may do what. It is immutable: after a change of entries there is
// another one. Kafka: StandardAuthorizer.
type Authorizer struct {
	set   *Set
	super map[string]struct{}
	open  bool
}

// Set returns the entries that the authorizer goes by.
func (a *Authorizer) Set() *Set { return a.set }

// IsSuper reports whether a principal may do anything.
func (a *Authorizer) IsSuper(principal string) bool {
	_, ok := a.super[principal]
	return ok
}

// Allows reports whether somebody may do something to a resource. It does not allocate.
func (a *Authorizer) Allows(who Who, o Operation, r Resource) bool {
	return a.all(who, r).Has(o)
}

// Operations returns what somebody may do to a resource, of the operations that resources of its
// type know (KIP-430). It does not allocate.
func (a *Authorizer) Operations(who Who, r Resource) Operations {
	return a.all(who, r) & Supported(r.Type)
}

func (a *Authorizer) all(who Who, r Resource) Operations {
	if len(a.super) > 0 && a.IsSuper(who.Principal) {
		return everyOperation
	}
	said := a.set.ask(who, r)
	if !said.about && a.open {
		return everyOperation
	}
	return said.allow &^ said.deny
}

// AllowsSome reports whether somebody may do something to at least one resource of a type. Only
// entries that name the operation, or All, count; none is implied, which makes no difference to
// Read and Write, what Kafka asks for. Its cost grows with the number of entries. Kafka:
// Authorizer.authorizeByResourceType.
func (a *Authorizer) AllowsSome(who Who, o Operation, t ResourceType) bool {
	// As in Kafka, a name that stands for any: super users, and what no entry is about.
	return a.Allows(who, o, Resource{Type: t, Name: "hardcode"}) || a.set.allowsSome(who, o, t)
}
