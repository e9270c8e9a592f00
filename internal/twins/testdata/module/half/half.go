// Package half is a second package, whose test has two parts.
package half

// Of returns half of n, rounded towards zero.
func Of(n int) int {
	return n / 2
}
