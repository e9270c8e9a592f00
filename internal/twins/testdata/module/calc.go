// Package calc is the module on which the command's own tests run.
package calc

// Sum returns a+b.
func Sum(a, b int) int {
	c := a + b
	return c
}

// Diff returns a-b.
func Diff(a, b int) int {
	return a - b
}

// Wait returns when c is closed.
func Wait(c <-chan struct{}) {
	<-c
}
