package machine

// A Bound limits what one request may have coordinators keep in memory. The zero Bound limits
// nothing.
type Bound struct {
	Principal string // is charged; "": no principal is
	Bytes     int    // that are kept for all; a principal has half of them; 0: no bound
}

// A Charge counts the memory of one thing that a coordinator keeps.
type Charge interface {
	// Fits reports whether n more bytes are within the Bound of a request, and within half of it for
	// the principal that is charged. The principal of the request is, if none is yet.
	Fits(by Bound, n int) bool

	// Add adds n bytes, which may be negative, and may exceed every Bound: the log has them.
	Add(n int)
}

// Uncharged is a Charge that counts nothing.
type Uncharged struct{}

// Fits implements Charge.
func (Uncharged) Fits(Bound, int) bool { return true }

// Add implements Charge.
func (Uncharged) Add(int) {}
