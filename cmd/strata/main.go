// Command strata looks into, checks, serves and drives logs of Strata and of Apache Kafka. `strata
// help` lists what it does; every command's help shows examples.
//
// Exit codes: 0 all went well, 1 something failed or is damaged, 2 the command was used wrongly.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}
