//go:build invariants

package record

// checkAll makes CheckBuilt look at everything.
const checkAll = true

// poison overwrites a released buffer, so that use after release fails a test.
func poison(p []byte) {
	p = p[:cap(p)]
	for i := range p {
		p[i] = 0xdb
	}
}
