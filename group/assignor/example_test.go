package assignor_test

import (
	"fmt"

	"github.com/stratalog/strata/group/assignor"
)

func ExampleCooperativeSticky() {
	member := func(id string) assignor.Member {
		return assignor.Member{ID: id, Subscription: assignor.Subscription{Topics: []string{"orders"}, Generation: -1}}
	}
	a := assignor.CooperativeSticky()
	shares, _ := a.Assign([]assignor.Member{member("a"), member("b")}, map[string]int32{"orders": 5})
	fmt.Println("a:", shares["a"])
	fmt.Println("b:", shares["b"])
	// Output:
	// a: [{orders 0} {orders 2} {orders 4}]
	// b: [{orders 1} {orders 3}]
}
