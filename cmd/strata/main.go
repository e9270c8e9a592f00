// Command strata inspects, checks, serves and operates logs of Strata and of Apache Kafka. `strata
// help` lists its commands; every command's help shows examples.
//
// Exit codes: 0 success; 1 the command failed: brokers do not answer or reject the request, a named
// topic, group or user does not exist, input is not a record, files are damaged, or the command
// found a condition that it warns of; 2 misuse: invalid arguments, flags or settings, or a
// directory or file that does not exist.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are the standard input, output and error of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}
