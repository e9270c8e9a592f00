package vfstest_test

import (
	"testing"

	"github.com/stratalog/strata/vfs"
	"github.com/stratalog/strata/vfs/vfstest"
)

// A test of a file system of your own calls Run with a function that makes it.
func ExampleRun() {
	_ = func(t *testing.T) { // TestMyFS
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.Mem(), "/" })
	}
}
