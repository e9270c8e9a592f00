//go:build invariants

package producer

// poison overwrites a released buffer, so that use after release fails a test.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
