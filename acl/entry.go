package acl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Entry is one access control entry with its resource pattern. Kafka: AclBinding. Two entries
// are equal, also in Kafka, if all fields are.
type Entry struct {
	ResourceType ResourceType
	ResourceName string // "*" with PatternType Literal: every resource of the type
	PatternType  PatternType

	Principal string // "User:alice"; "User:*" means all principals
	Host      string // an address, "10.0.0.7" or "::1" (the same as "0:0:0:0:0:0:0:1"); "*" means any

	Operation  Operation
	Permission Permission
}

// Wildcard as the resource name of a literal entry matches all resources, as a host all hosts.
const Wildcard = "*"

// AnyPrincipal is the principal of entries for all principals.
const AnyPrincipal = "User:*"

// ClusterName is the only name of a resource of type Cluster.
const ClusterName = "kafka-cluster"

// ErrInvalid is matched by errors for an invalid entry or filter. Kafka: INVALID_REQUEST.
var ErrInvalid = errors.New("acl: invalid")

// An InvalidError describes the problem of an entry or a filter, in Kafka's words if Kafka has a
// message for it. It matches ErrInvalid.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return e.Reason }

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// MaxText is the maximum length of a name, a principal or a host in bytes: the limit of Kafka's
// protocol.
const MaxText = 1<<15 - 1

// Validate returns an *InvalidError for an entry that Kafka would reject. Kafka:
// AclApis.handleCreateAcls, AclControlManager.validateNewAcl.
func (e Entry) Validate() error {
	switch {
	case e.ResourceType == Cluster && e.ResourceName != ClusterName:
		return invalid("The only valid name for the CLUSTER resource is %s", ClusterName)
	case e.ResourceName == "":
		return invalid("Invalid empty resource name")
	case !e.ResourceType.known() || e.ResourceType == AnyResource:
		return invalid("Invalid resourceType %v", e.ResourceType)
	case e.PatternType != Literal && e.PatternType != Prefixed:
		return invalid("Invalid patternType %v", e.PatternType)
	case !e.Operation.known() || e.Operation == AnyOperation:
		return invalid("Invalid operation %v", e.Operation)
	case e.Permission != Deny && e.Permission != Allow:
		return invalid("Invalid permissionType %v", e.Permission)
	case len(e.ResourceName) > MaxText || len(e.Principal) > MaxText || len(e.Host) > MaxText:
		return invalid("A name, principal or host has more than %d bytes", MaxText)
	}
	return validatePrincipal(e.Principal)
}

// validatePrincipal refuses what no principal could be. Kafka: SecurityUtils.parseKafkaPrincipal.
func validatePrincipal(p string) error {
	if p == "" {
		return invalid("expected a string in format principalType:principalName but got %s", p)
	}
	if kind, name, ok := strings.Cut(p, ":"); !ok || kind == "" || name == "" {
		return invalid("expected a string in format principalType:principalName but got %s", p)
	}
	return nil
}

// String returns a readable form of the entry on one line.
func (e Entry) String() string {
	return fmt.Sprintf("%v %v %v from %v on %v %v:%v", e.Permission, e.Principal, e.Operation, e.Host, e.PatternType, e.ResourceType, e.ResourceName)
}

// Compare orders entries: by resource, then by principal, host, operation and permission.
func (e Entry) Compare(o Entry) int {
	return cmp.Or(
		cmp.Compare(e.ResourceType, o.ResourceType), cmp.Compare(e.ResourceName, o.ResourceName), cmp.Compare(e.PatternType, o.PatternType),
		cmp.Compare(e.Principal, o.Principal), cmp.Compare(e.Host, o.Host), cmp.Compare(e.Operation, o.Operation), cmp.Compare(e.Permission, o.Permission),
	)
}

// isAbout reports whether the entry's pattern is one of a resource.
func (e Entry) isAbout(name string) bool {
	if e.PatternType == Prefixed {
		return strings.HasPrefix(name, e.ResourceName)
	}
	return e.ResourceName == name || e.ResourceName == Wildcard
}

// Sorted returns a sorted copy of entries, in the order of Compare.
func Sorted(entries []Entry) []Entry {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, Entry.Compare)
	return sorted
}
