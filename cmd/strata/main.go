// Command strata looks into, checks, serves and drives logs of Strata and of Apache Kafka. `strata
// help` lists what it does; every command's help shows examples.
//
// Exit codes: 0 it is done; 1 it was understood and failed: brokers do not answer or refuse, what
// is named is not there, input is no record, files are damaged, or something was found that the
// command is asked to warn of; 2 it was used wrongly: arguments, flags and settings that nothing
// can meet, or no such directory or file to work on.
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
