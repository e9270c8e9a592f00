package acl

// A Filter says which entries are meant. Zero values of the texts, nil, stand for all. Kafka:
// AclBindingFilter.
type Filter struct {
	ResourceType ResourceType // AnyResource: all
	ResourceName *string      // nil: all
	PatternType  PatternType  // AnyPattern: all; Match: those that are about the resource named

	Principal *string // nil: all. Compared as it is: "User:*" means entries for everybody
	Host      *string // nil: all

	Operation  Operation  // AnyOperation: all
	Permission Permission // AnyPermission: all
}

// Everything is the filter that all entries match.
func Everything() Filter {
	return Filter{ResourceType: AnyResource, PatternType: AnyPattern, Operation: AnyOperation, Permission: AnyPermission}
}

// Exactly returns the filter that just e matches.
func Exactly(e Entry) Filter {
	return Filter{
		ResourceType: e.ResourceType, ResourceName: &e.ResourceName, PatternType: e.PatternType,
		Principal: &e.Principal, Host: &e.Host, Operation: e.Operation, Permission: e.Permission,
	}
}

// Validate returns an *InvalidError for a filter with a number that is not known. Kafka:
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

// Matches reports whether an entry is meant. Kafka: ResourcePatternFilter.matches,
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
