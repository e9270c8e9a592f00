package explore

import "slices"

// Shrink removes operations from a script, and operations inside others, for as long as fails
// returns true.
func Shrink(s *Script, fails func(*Script) bool) *Script {
	for size := (len(s.Ops) + 1) / 2; size > 0; {
		smaller := false
		for at := 0; at < len(s.Ops); {
			end := min(at+size, len(s.Ops))
			try := &Script{World: s.World, Ops: slices.Concat(s.Ops[:at], s.Ops[end:])}
			if fails(try) {
				s, smaller = try, true
			} else {
				at = end
			}
		}
		if size == 1 && !smaller {
			break
		}
		size = max(size/2, 1)
	}
	for i := range s.Ops {
		if s.Ops[i].Mid == nil {
			continue
		}
		try := &Script{World: s.World, Ops: slices.Clone(s.Ops)}
		try.Ops[i].Mid, try.Ops[i].At = nil, 0
		if fails(try) {
			s = try
		}
	}
	return s
}

// First returns a script of the first n operations.
func (s *Script) First(n int) *Script {
	return &Script{World: s.World, Ops: s.Ops[:min(n, len(s.Ops))]}
}
