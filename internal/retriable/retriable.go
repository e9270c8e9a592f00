// Package retriable reads the method Retriable() bool of a backend's errors. Both client packages
// use it.
package retriable

import "errors"

// Of returns the result of the method Retriable of the first error in err's tree that has one.
// decided is false if no error has the method.
func Of(err error) (retriable, decided bool) {
	var r interface{ Retriable() bool }
	if !errors.As(err, &r) {
		return false, false
	}
	return r.Retriable(), true
}

// Final reports whether an error in err's tree excludes a retry: its method Retriable returns false.
func Final(err error) bool {
	retriable, decided := Of(err)
	return decided && !retriable
}
