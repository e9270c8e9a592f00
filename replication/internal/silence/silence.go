// Package silence measures the time without a response.
package silence

import "time"

// A Silence limits the time to wait for responses. It belongs to one goroutine, which receives from
// C.
type Silence struct {
	C     <-chan time.Time // receives at the end of each beat: see Over
	timer *time.Timer
	beat  time.Duration
	left  int // beats
}

// beats is the number of parts of a silence. A process that was suspended finds only one beat over
// when it resumes. It has the others to receive the responses that arrived in the meantime.
const beats = 3

// New returns a silence that ends after patience, and has not begun.
func New(patience time.Duration) *Silence {
	s := &Silence{beat: patience / beats}
	s.timer = time.NewTimer(s.beat)
	s.timer.Stop()
	s.C = s.timer.C
	return s
}

// Begin starts the silence, or starts it again.
func (s *Silence) Begin() {
	s.left = beats
	s.timer.Reset(s.beat)
}

// Over must be called at each beat; it returns true for the last one.
func (s *Silence) Over() bool {
	if s.left--; s.left > 0 {
		s.timer.Reset(s.beat)
	}
	return s.left == 0
}

// Stop ends the silence.
func (s *Silence) Stop() { s.timer.Stop() }
