package remote

import "testing"

// UseFetchSessionsFrom makes fetch requests of n partitions use sessions until the end of the test.
func UseFetchSessionsFrom(t testing.TB, n int) {
	before := fetchSessionFrom
	fetchSessionFrom = n
	t.Cleanup(func() { fetchSessionFrom = before })
}
