package acl_test

import (
	"fmt"

	"github.com/stratalog/strata/acl"
)

func Example() {
	set := acl.NewSet(
		acl.Entry{
			ResourceType: acl.Topic, ResourceName: "orders-", PatternType: acl.Prefixed,
			Principal: "User:alice", Host: "*", Operation: acl.Read, Permission: acl.Allow,
		},
		acl.Entry{
			ResourceType: acl.Topic, ResourceName: "orders-audit", PatternType: acl.Literal,
			Principal: "User:*", Host: "*", Operation: acl.All, Permission: acl.Deny,
		},
	)
	authorizer := acl.Policy{SuperUsers: []string{"User:admin"}}.With(set)
	alice := acl.Client{Principal: "User:alice", Host: "10.0.0.7"}
	fmt.Println(authorizer.Operations(alice, acl.Resource{Type: acl.Topic, Name: "orders-eu"}))
	fmt.Println(authorizer.Operations(alice, acl.Resource{Type: acl.Topic, Name: "orders-audit"}))
	// Output:
	// [READ DESCRIBE]
	// []
}
