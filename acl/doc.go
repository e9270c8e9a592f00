// Package acl implements Kafka's access control lists as values: it decides which operations a
// principal may perform.
//
// Use it to build entries for a cluster's ACLs, or as an authorizer of your own. Package kafka
// applies a cluster's entries to clients.
//
// An Entry allows or denies an operation on the resources of a pattern, to a principal, from a
// host. A Set is an immutable collection of entries with an index. An Authorizer combines a Set and
// a Policy by the rules of Kafka's StandardAuthorizer:
//
//   - An entry applies to a resource if its pattern is the resource's literal name, a literal "*",
//     or a prefix of the name.
//   - It applies to a principal if it names exactly that principal, byte for byte, or User:*. It
//     applies to a host if it names that address, or "*". IPv6 addresses are compared as addresses:
//     an entry for 0:0:0:0:0:0:0:1, as Java writes it, applies to a client at ::1.
//   - An entry that denies takes precedence over all entries that allow, however specific these
//     are.
//   - To allow Read, Write, Delete or Alter also allows Describe, and to allow AlterConfigs also
//     allows DescribeConfigs. To deny them denies nothing else.
//   - Operations without an entry that allows them are denied. A Policy may allow all principals
//     the operations on resources without any entry, and super users all operations.
//
// The package only computes: it uses no clock, lock, goroutine or I/O. Values never change and are
// safe for concurrent use. The numbers of types and operations are those of Kafka's protocol.
//
//	set := acl.NewSet(acl.Entry{
//		ResourceType: acl.Topic, ResourceName: "orders-", PatternType: acl.Prefixed,
//		Principal: "User:alice", Host: "*", Operation: acl.Read, Permission: acl.Allow,
//	})
//	policy := acl.Policy{SuperUsers: []string{"User:admin"}}
//	client := acl.Client{Principal: "User:alice", Host: "10.0.0.7"}
//	may := policy.With(set).Allows(client, acl.Read, acl.Resource{Type: acl.Topic, Name: "orders-eu"})
package acl
