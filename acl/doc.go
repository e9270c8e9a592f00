// Package acl decides who may do what: Kafka's access control lists, as values.
//
// An Entry allows or denies an operation on resources that a pattern names, to a principal, from a
// host. A Set is an immutable collection of entries with an index; Set.Operations answers what a
// principal may do to a resource, by the rules of Kafka's StandardAuthorizer:
//
//   - An entry is about a resource if its pattern is the resource's literal name, a literal "*", or
//     a prefix of the name.
//   - It is for a principal if it names just that one, byte by byte, or User:*; and for a host
//     if it names that address, or "*".
//   - An entry that denies beats any that allows, however special.
//   - To allow Read, Write, Delete or Alter is to allow Describe, and to allow AlterConfigs is to
//     allow DescribeConfigs. To deny them denies nothing else.
//   - What no entry allows is denied. A Policy may allow everybody what no entry at all is about,
//     and super users everything whatever the entries say.
//
// The package only computes: no clock, lock, goroutine or I/O. Values are safe for concurrent use,
// as nothing changes them. Numbers of types and operations are those of Kafka's protocol.
//
//	set := acl.NewSet(acl.Entry{
//		ResourceType: acl.Topic, ResourceName: "orders-", PatternType: acl.Prefixed,
//		Principal: "User:alice", Host: "*", Operation: acl.Read, Permission: acl.Allow,
//	})
//	policy := acl.Policy{SuperUsers: []string{"User:admin"}}
//	may := policy.With(set).Allows(acl.Who{Principal: "User:alice", Host: "10.0.0.7"}, acl.Read, acl.Resource{Type: acl.Topic, Name: "orders-eu"})
package acl
