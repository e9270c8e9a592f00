package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// isTerminal reports whether w is a terminal, or another character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress returns a function that shows the progress of a long operation on standard error, and
// one that clears it. If standard error is not a terminal both do nothing, and text is not called.
func (a *app) progress() (tell func(text func() string), done func()) {
	if !isTerminal(a.err) {
		return func(func() string) {}, func() {}
	}
	return showProgress(a.err, time.Now)
}

// showProgress is progress on w: one line that is overwritten at most ten times a second. It shows
// nothing in the first tenth of a second.
func showProgress(w io.Writer, now func() time.Time) (tell func(text func() string), done func()) {
	const pause = 100 * time.Millisecond
	last, shown := now(), false
	tell = func(text func() string) {
		if at := now(); at.Sub(last) >= pause {
			last, shown = at, true
			fmt.Fprintf(w, "\r\x1b[K%s", printable(text()))
		}
	}
	return tell, func() {
		if shown {
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
}
