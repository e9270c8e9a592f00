package offsets_test

import (
	"fmt"

	"github.com/stratalog/strata/internal/offsets"
)

func ExamplePartitionFor() {
	fmt.Println(offsets.PartitionFor("my-group", 50))
	// Output: 12
}
