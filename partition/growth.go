package partition

// maxMarks bounds what growth remembers while the high watermark stands still.
const maxMarks = 4096

// growth counts the bytes below the high watermark since the partition was opened, so that a reader
// that waits for many bytes is not woken for few. The zero growth is at 0.
type growth struct {
	visible int64 // bytes below the high watermark
	written int64 // bytes below the log end
	// marks has the ends of the batches in between, in order from index head. When there are too
	// many, the last mark covers all later ones.
	marks []mark
	head  int
}

// A mark is the number of bytes written when the log ended at end.
type mark struct{ end, written int64 }

// add adds n bytes after which the log ends at end.
func (g *growth) add(end int64, n int) {
	g.written += int64(n)
	if last := len(g.marks) - 1; len(g.marks)-g.head >= maxMarks {
		g.marks[last] = mark{end, g.written}
		return
	}
	g.marks = append(g.marks, mark{end, g.written})
}

// pass moves the visible bytes to the high watermark hw.
func (g *growth) pass(hw int64) {
	for g.head < len(g.marks) && g.marks[g.head].end <= hw {
		g.visible = g.marks[g.head].written
		g.head++
	}
	if g.head == len(g.marks) {
		g.marks, g.head = g.marks[:0], 0
	} else if g.head > maxMarks/2 {
		g.marks = append(g.marks[:0], g.marks[g.head:]...)
		g.head = 0
	}
}

// cut removes the marks at or above the log's new end.
func (g *growth) cut(end int64) {
	for n := len(g.marks); n > g.head && g.marks[n-1].end > end; n = len(g.marks) {
		g.marks = g.marks[:n-1]
	}
}
