package acl

import (
	"fmt"
	"slices"
	"strings"
)

// A ResourceType is a kind of resource, with its number in Kafka's protocol. Kafka: ResourceType.
type ResourceType int8

// The kinds of resources. AnyResource is for filters only.
const (
	AnyResource     ResourceType = 1
	Topic           ResourceType = 2
	Group           ResourceType = 3
	Cluster         ResourceType = 4
	TransactionalID ResourceType = 5
	DelegationToken ResourceType = 6
	User            ResourceType = 7
)

// A PatternType selects how an entry's resource name is compared. Kafka: PatternType.
type PatternType int8

// The kinds of patterns. AnyPattern and Match are only for filters: Match selects all patterns that
// apply to the named resource.
const (
	AnyPattern PatternType = 1
	Match      PatternType = 2
	Literal    PatternType = 3
	Prefixed   PatternType = 4
)

// An Operation is an operation on a resource. Kafka: AclOperation.
type Operation int8

// The operations. AnyOperation is for filters only; All in an entry means every operation.
const (
	AnyOperation    Operation = 1
	All             Operation = 2
	Read            Operation = 3
	Write           Operation = 4
	Create          Operation = 5
	Delete          Operation = 6
	Alter           Operation = 7
	Describe        Operation = 8
	ClusterAction   Operation = 9
	DescribeConfigs Operation = 10
	AlterConfigs    Operation = 11
	IdempotentWrite Operation = 12
	CreateTokens    Operation = 13
	DescribeTokens  Operation = 14
	TwoPhaseCommit  Operation = 15
)

// A Permission is the effect of an entry: allow or deny. Kafka: AclPermissionType.
type Permission int8

// The permissions. AnyPermission is for filters only.
const (
	AnyPermission Permission = 1
	Deny          Permission = 2
	Allow         Permission = 3
)

// Names by number, as in Kafka's enumerations; 0 is not known.
var (
	resourceNames   = []string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
	patternNames    = []string{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"}
	operationNames  = []string{"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
	permissionNames = []string{"UNKNOWN", "ANY", "DENY", "ALLOW"}
)

func nameOf(names []string, n int8) string {
	if n < 0 || int(n) >= len(names) {
		return names[0]
	}
	return names[n]
}

func (t ResourceType) known() bool { return t > 0 && int(t) < len(resourceNames) }
func (t PatternType) known() bool  { return t > 0 && int(t) < len(patternNames) }
func (o Operation) known() bool    { return o > 0 && int(o) < len(operationNames) }
func (p Permission) known() bool   { return p > 0 && int(p) < len(permissionNames) }

// String returns Kafka's name, or UNKNOWN for an unknown number.
func (t ResourceType) String() string { return nameOf(resourceNames, int8(t)) }

// String returns Kafka's name, or UNKNOWN for an unknown number.
func (t PatternType) String() string { return nameOf(patternNames, int8(t)) }

// String returns Kafka's name, or UNKNOWN for an unknown number.
func (o Operation) String() string { return nameOf(operationNames, int8(o)) }

// String returns Kafka's name, or UNKNOWN for an unknown number.
func (p Permission) String() string { return nameOf(permissionNames, int8(p)) }

// parse finds a name whatever its case, and whether its words are joined or not: the tools of Kafka
// take "TransactionalId" for TRANSACTIONAL_ID.
func parse(what string, names []string, s string) (int8, error) {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "_", "") }
	i := slices.IndexFunc(names, func(n string) bool { return plain(n) == plain(s) })
	if i < 1 {
		return 0, invalid("unknown %s %q: one of %s", what, s, strings.Join(names[1:], ", "))
	}
	return int8(i), nil
}

// ParseResourceType parses a name as returned by String, in any case and with or without
// underscores. The error matches ErrInvalid.
func ParseResourceType(s string) (ResourceType, error) {
	n, err := parse("resource type", resourceNames, s)
	return ResourceType(n), err
}

// ParsePatternType parses the name of a pattern type as ParseResourceType does.
func ParsePatternType(s string) (PatternType, error) {
	n, err := parse("pattern type", patternNames, s)
	return PatternType(n), err
}

// ParseOperation parses the name of an operation as ParseResourceType does.
func ParseOperation(s string) (Operation, error) {
	n, err := parse("operation", operationNames, s)
	return Operation(n), err
}

// ParsePermission parses the name of a permission as ParseResourceType does.
func ParsePermission(s string) (Permission, error) {
	n, err := parse("permission", permissionNames, s)
	return Permission(n), err
}

// Operations is a set of operations: bit n is the operation with number n, as on the wire
// (KIP-430).
type Operations int32

// Has reports whether the set contains an operation.
func (s Operations) Has(o Operation) bool { return s&(1<<o) != 0 }

// String lists the operations by name.
func (s Operations) String() string {
	var names []string
	for o := range operationNames {
		if s.Has(Operation(o)) {
			names = append(names, operationNames[o])
		}
	}
	return fmt.Sprint(names)
}

// everyOperation has all operations on resources. Any and All are not operations of their own.
const everyOperation Operations = 1<<16 - 1<<Read

// supported are the operations that resources of a type know, by number. Kafka:
// AclEntry.supportedOperations.
var supported = []Operations{
	Topic:           1<<Read | 1<<Write | 1<<Create | 1<<Describe | 1<<Delete | 1<<Alter | 1<<DescribeConfigs | 1<<AlterConfigs,
	Group:           1<<Read | 1<<Describe | 1<<Delete | 1<<DescribeConfigs | 1<<AlterConfigs,
	Cluster:         1<<Create | 1<<ClusterAction | 1<<DescribeConfigs | 1<<AlterConfigs | 1<<IdempotentWrite | 1<<Alter | 1<<Describe,
	TransactionalID: 1<<Describe | 1<<Write | 1<<TwoPhaseCommit,
	DelegationToken: 1 << Describe,
	User:            1<<CreateTokens | 1<<DescribeTokens,
}

// Supported returns the operations that exist for resources of type t; none for AnyResource.
func Supported(t ResourceType) Operations {
	if t < 0 || int(t) >= len(supported) {
		return 0
	}
	return supported[t]
}
