package recovery

// A Torn is a failed write that could not be cut back, as its mark records: the data of the segment
// Base ends at byte Size, the log at offset Next. Later bytes were rejected, even if they are valid
// batches: no kill or power failure leaves such bytes. So the rest of a plan is made as if they did
// not exist.
type Torn struct{ Base, Size, Next int64 }

// Cut returns the step that removes the bytes of the write from a file of the given size, before
// all steps of the plan; ok is false if there are none.
func (t Torn) Cut(size int64) (s Step, ok bool) {
	return Step{
		Kind: Cut, Name: logName(t.Base), Offset: t.Next, Bytes: size - t.Size,
		Reason: "a write that failed, and could not be taken back",
	}, size > t.Size
}
