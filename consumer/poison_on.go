//go:build invariants

package consumer

// poisoned is true if released records are overwritten.
const poisoned = true

// poison overwrites a released buffer, so that use after release fails a test.
func poison(p []byte) {
	p = p[:cap(p)]
	for i := range p {
		p[i] = 0xdb
	}
}
