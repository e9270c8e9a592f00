package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// isTerminal tells whether somebody looks at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress returns what shows a terminal how far something long has come, and what takes that away
// again. Where errors go to no terminal nothing is shown, and no text is asked for.
func (a *app) progress() (tell func(text func() string), done func()) {
	if !isTerminal(a.err) {
		return func(func() string) {}, func() {}
	}
	return showProgress(a.err, time.Now)
}

// showProgress is progress on w, a line that is written over, at most ten times a second. The first
// tenth of a second shows nothing.
func showProgress(w io.Writer, now func() time.Time) (tell func(text func() string), done func()) {
	const pause = 100 * time.Millisecond
	last, shown := now(), false
	tell = func(text func() string) {
		if at := now(); at.Sub(last) >= pause {
			last, shown = at, true
			fmt.Fprintf(w, "\r\x1b[K%s", text())
		}
	}
	return tell, func() {
		if shown {
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
}
