package group_test

import (
	"fmt"

	"github.com/stratalog/strata/group"
)

func ExampleCooperativeSticky() {
	member := func(id string) group.Member {
		return group.Member{ID: id, Subscription: group.Subscription{Topics: []string{"orders"}, Generation: -1}}
	}
	a := group.CooperativeSticky()
	shares, _ := a.Assign([]group.Member{member("a"), member("b")}, map[string]int32{"orders": 5})
	fmt.Println("a:", shares["a"])
	fmt.Println("b:", shares["b"])
	// Output:
	// a: [{orders 0} {orders 2} {orders 4}]
	// b: [{orders 1} {orders 3}]
}

func ExamplePartitionFor() {
	fmt.Println(group.PartitionFor("my-group", 50))
	// Output: 12
}
