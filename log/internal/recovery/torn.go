package recovery

// A Torn is a write that failed half-way and could not be cut back, as the mark of it has it: the
// data of the segment Base ends at byte Size, the log at offset Next. What lies behind was refused,
// whatever it looks like: no kill and no power cut leaves such bytes, so the rest of a plan is made
// as if they were gone.
type Torn struct{ Base, Size, Next int64 }

// Cut returns the step that takes away what the write has left in a file of the given size, before
// all steps of the plan; ok is false if nothing is left of it.
func (t Torn) Cut(size int64) (s Step, ok bool) {
	return Step{
		Kind: Cut, Name: logName(t.Base), Offset: t.Next, Bytes: size - t.Size,
		Reason: "a write that failed, and could not be taken back",
	}, size > t.Size
}
