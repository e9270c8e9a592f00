// Package spoken tells what it is.
package spoken

import "errors"

// Exported says so.
type Exported struct {
	Field  int // nil: nobody reads
	hidden int // who waits
}

// hidden goes on.
func hidden() error { return errors.New("nobody: it is gone") }
