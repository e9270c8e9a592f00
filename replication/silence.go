package replication

import "time"

// A silence is how long those are waited for that have not answered yet.
type silence struct {
	timer *time.Timer
	beat  time.Duration
	left  int // beats
}

// beats are the parts of a silence. A process that was stopped for a while finds one of them over
// when it goes on, before it hears of what was done meanwhile.
const beats = 3

func newSilence(patience time.Duration) *silence {
	s := &silence{beat: patience / beats}
	s.timer = time.NewTimer(s.beat)
	s.timer.Stop()
	return s
}

// begin has the silence count from now on.
func (s *silence) begin() {
	s.left = beats
	s.timer.Reset(s.beat)
}

// over is called at each beat; true: it was the last one.
func (s *silence) over() bool {
	if s.left--; s.left > 0 {
		s.timer.Reset(s.beat)
	}
	return s.left == 0
}
