package machine

// A Bound limits the memory that coordinators may keep because of one request. The zero Bound is no
// limit.
type Bound struct {
	Principal string // principal that is charged; "": none
	Bytes     int    // limit for all principals together, half of it for each; 0: no limit
}

// A Charge counts the memory of one thing that a coordinator keeps.
type Charge interface {
	// Fits reports whether n more bytes are within the Bound of a request, and within half of it
	// for the charged principal. If no principal is charged yet, the request's principal is.
	Fits(by Bound, n int) bool

	// Add adds n bytes. n may be negative. The sum may exceed every Bound: the log has the state.
	Add(n int)
}

// Uncharged is a Charge that counts nothing.
type Uncharged struct{}

// Fits implements Charge.
func (Uncharged) Fits(Bound, int) bool { return true }

// Add implements Charge.
func (Uncharged) Add(int) {}
