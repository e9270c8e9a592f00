package consumer

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID returns the number of the calling goroutine. Close uses it to find out whether it is
// called from a loop body or callback of this consumer, which it must not wait for: the signatures
// of callbacks and loops cannot carry that information. A commit during other commits uses it, too.
// It is called once for each loop, callback and such commit.
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
