package consumer

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID returns the number of the calling goroutine. Close needs it, to tell whether it is
// called from a loop body or a callback of this consumer, which it must not wait for, or from
// elsewhere, where it must: the signature of a callback, or of a loop, has no room for saying so.
// So does a commit while others wait. It is taken once for each loop, callback and such commit.
func goroutineID() int64 {
	var buf [64]byte
	head := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:..."
	head = bytes.TrimPrefix(head, []byte("goroutine "))
	if i := bytes.IndexByte(head, ' '); i >= 0 {
		head = head[:i]
	}
	// 0 if the format ever changes: no goroutine has that id
	id, _ := strconv.ParseInt(string(head), 10, 64)
	return id
}
