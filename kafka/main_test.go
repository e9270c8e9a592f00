package kafka

import (
	"fmt"
	"os"
	"testing"

	"github.com/stratalog/strata/internal/leaktest"
)

// TestMain runs the tests, or serves: see memory_test.go.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STRATA_TEST_SERVE"); dir != "" {
		if err := childMain(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}
