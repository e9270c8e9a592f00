package acl

// A Filter selects entries. The zero value of a number and a nil text match all. Kafka:
// AclBindingFilter.
type Filter struct {
	ResourceType ResourceType // AnyResource: all
	ResourceName *string      // nil: all
	PatternType  PatternType  // AnyPattern: all; Match: entries of all patterns that apply to ResourceName

	Principal *string // nil: all. Compared literally: "User:*" selects entries for all principals
	Host      *string // nil: all. Compared as text, as in Kafka: "::1" does not match "0:0:0:0:0:0:0:1"

	Operation  Operation  // AnyOperation: all
	Permission Permission // AnyPermission: all
}

// Everything returns the filter that matches all entries.
func Everything() Filter {
	return Filter{ResourceType: AnyResource, PatternType: AnyPattern, Operation: AnyOperation, Permission: AnyPermission}
}

// Exactly returns the filter that matches only e.
func Exactly(e Entry) Filter {
	return Filter{
		ResourceType: e.ResourceType, ResourceName: &e.ResourceName, PatternType: e.PatternType,
		Principal: &e.Principal, Host: &e.Host, Operation: e.Operation, Permission: e.Permission,
	}
}

// Validate returns an *InvalidError for a filter with an unknown number. Kafka:
// AclControlManager.validateFilter.
func (f Filter) Validate() error {
	switch {
	case !f.ResourceType.known() || !f.PatternType.known():
		return invalid("Unknown patternFilter.")
	case !f.Operation.known() || !f.Permission.known():
		return invalid("Unknown entryFilter.")
	}
	return nil
}

// Matches reports whether the filter selects e. Kafka: ResourcePatternFilter.matches,
// AccessControlEntryFilter.matches.
func (f Filter) Matches(e Entry) bool {
	switch {
	case f.ResourceType != AnyResource && f.ResourceType != e.ResourceType,
		f.PatternType != AnyPattern && f.PatternType != Match && f.PatternType != e.PatternType,
		f.Principal != nil && *f.Principal != e.Principal,
		f.Host != nil && *f.Host != e.Host,
		f.Operation != AnyOperation && f.Operation != e.Operation,
		f.Permission != AnyPermission && f.Permission != e.Permission:
		return false
	case f.ResourceName == nil:
		return true
	case f.PatternType == Match:
		return e.isAbout(*f.ResourceName)
	}
	return *f.ResourceName == e.ResourceName
}
