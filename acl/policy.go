package acl

// A Policy holds the settings of an authorizer besides entries. The zero Policy has no super users
// and denies every operation without an entry that allows it.
type Policy struct {
	// SuperUsers may perform all operations, whatever the entries are. Principals are written as
	// "User:admin". Kafka: super.users.
	SuperUsers []string

	// AllowEveryoneIfNoACL allows all principals the operations on resources without any entry.
	// Kafka: allow.everyone.if.no.acl.found.
	AllowEveryoneIfNoACL bool
}

// Validate returns an *InvalidError for a super user that is not a valid principal.
func (p Policy) Validate() error {
	for _, u := range p.SuperUsers {
		if err := validatePrincipal(u); err != nil {
			return err
		}
	}
	return nil
}

// With returns an authorizer for the policy and the entries of s; nil means no entries.
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

// An Authorizer decides which operations a principal may perform. It is immutable: a change of
// entries needs a new one. Kafka: StandardAuthorizer.
type Authorizer struct {
	set   *Set
	super map[string]struct{}
	open  bool
}

// Set returns the authorizer's entries.
func (a *Authorizer) Set() *Set { return a.set }

// IsSuper reports whether principal is a super user, and may perform all operations.
func (a *Authorizer) IsSuper(principal string) bool {
	_, ok := a.super[principal]
	return ok
}

// Allows reports whether the principal may perform o on r. It does not allocate.
func (a *Authorizer) Allows(client Client, o Operation, r Resource) bool {
	return a.all(client, r).Has(o)
}

// Operations returns the operations that the principal may perform on r, among those that exist for
// its type (KIP-430). It does not allocate.
func (a *Authorizer) Operations(client Client, r Resource) Operations {
	return a.all(client, r) & Supported(r.Type)
}

func (a *Authorizer) all(client Client, r Resource) Operations {
	if len(a.super) > 0 && a.IsSuper(client.Principal) {
		return everyOperation
	}
	d := a.set.lookup(client, r)
	if !d.covered && a.open {
		return everyOperation
	}
	return d.allow &^ d.deny
}

// AllowsSome reports whether the principal may perform o on at least one resource of type t. Only
// entries for o or All count, not entries that imply o. That makes no difference for Read and
// Write, the only operations that Kafka checks this way. The cost grows with the number of entries.
// Kafka: Authorizer.authorizeByResourceType.
func (a *Authorizer) AllowsSome(client Client, o Operation, t ResourceType) bool {
	// As in Kafka, a name that stands for any: it covers super users, and resources without an entry.
	return a.Allows(client, o, Resource{Type: t, Name: "hardcode"}) || a.set.allowsSome(client, o, t)
}
