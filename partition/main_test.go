package partition

import (
	"flag"
	"testing"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("rapid.nofailfile", "true") // a failure prints its seed
	leaktest.Main(m)
}
