package vfstest_test

import (
	"testing"

	"github.com/stratalog/strata/vfs"
	"github.com/stratalog/strata/vfs/vfstest"
)

// A test of your own file system calls Run with a function that creates it.
func ExampleRun() {
	_ = func(t *testing.T) { // TestMyFS
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.Mem(), "/" })
	}
}
