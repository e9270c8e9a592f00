package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stratalog/strata/vfs"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitMisuse = 2
)

// An app is one run of the program.
type app struct {
	streams
	fs   vfs.FS
	json bool          // --json
	w    *bufio.Writer // out, buffered

	running bool // arguments and flags are accepted: an error from now on is not misuse
}

// errMisuse marks errors of the command line. Their exit code is 2.
var errMisuse = errors.New("misuse")

// errSilent ends a command with exit code 1. The command has already printed the reason.
var errSilent = errors.New("failed")

type misuseError struct{ msg string }

func (e *misuseError) Error() string        { return e.msg }
func (e *misuseError) Is(target error) bool { return target == errMisuse }

func misuse(format string, args ...any) error { return &misuseError{fmt.Sprintf(format, args...)} }

// run runs the program with args, the arguments without its name, and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	a := &app{streams: s, fs: vfs.OS(), w: newWriter(s.out)}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ferr := a.w.Flush(); err == nil {
		err = ferr
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errSilent):
		return exitFailed
	}
	// errors of package strata begin with the program's name already
	fmt.Fprintf(s.err, "strata: %s\n", printableLines(onceOnly.Replace(strings.TrimPrefix(err.Error(), "strata: "))))
	if errors.Is(err, errMisuse) || !a.running {
		return exitMisuse
	}
	return exitFailed
}

// version returns the version of the main module in the build, "(devel)" if it is not recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "strata",
		Short: "Inspect, check, serve and operate logs of Strata and Apache Kafka",
		Long: "strata works on the files of Strata and of Apache Kafka, and with running brokers of either.\n\n" +
			"Exit codes: 0 success; 1 the command failed: brokers do not answer or reject the request, a named topic, group or user does not exist, input is not a\n" +
			"record, files are damaged, or the command found a condition that it warns of; 2 misuse: invalid arguments, flags or settings, or a directory or file\n" +
			"that does not exist.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object per line")
	root.SetIn(a.in)
	root.SetOut(a.w)
	root.SetErr(a.err)
	a.parent(root)
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.AddCommand(a.dumpCmd(), a.verifyCmd(), a.backupCmd(), a.restoreCmd(), a.importCmd(), a.exportCmd(), a.graduateCmd(), a.serveCmd(), a.clusterCmd(), a.topCmd(), a.topicsCmd(), a.groupsCmd(), a.transactionsCmd(), a.sharesCmd(), a.aclsCmd(), a.usersCmd(), a.quotasCmd(), a.produceCmd(), a.consumeCmd(), a.mirrorCmd(), a.copyCmd(), a.promoteCmd(), a.versionCmd())
	return root
}

// parent makes c a command that only has subcommands: without one of them it is misuse.
func (a *app) parent(c *cobra.Command) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		return misuse("%s needs a subcommand: %s", c.CommandPath(), strings.Join(names, ", "))
	}
	return c
}

// do returns RunE of a command: it rejects empty arguments, marks the app as running, and calls fn.
func (a *app) do(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := nothingEmpty(c, args); err != nil {
			return err
		}
		a.running = true
		return fn(c.Context(), args)
	}
}

// mayBeEmpty are flags for which an empty value has a meaning.
var mayBeEmpty = []string{"key", "key-separator"}

// nothingEmpty rejects empty arguments and empty flag values, which a script passes if a variable
// is not set: a missing name would select more, such as all topics. Values of records and the flags
// of serve may be empty.
func nothingEmpty(c *cobra.Command, args []string) (err error) {
	if c.Name() == "produce" {
		args = args[:1]
	}
	if i := slices.Index(args, ""); i >= 0 {
		return misuse("argument %d is empty", i+1)
	}
	if c.Name() == "serve" {
		return nil
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			names := list.GetSlice()
			empty = len(names) == 0 || slices.Contains(names, "")
		}
		if empty && err == nil && !slices.Contains(mayBeEmpty, f.Name) {
			err = misuse("--%s is empty", f.Name)
		}
	})
	return err
}

// A line is an item of output: a JSON object with --json, else text. writeText ends a line with a
// newline at the end of a Write. All other newlines and control characters are escaped.
type line interface {
	writeText(w io.Writer)
}

// emit prints l.
func (a *app) emit(l line) error {
	if !a.json {
		l.writeText(printableWriter{a.w})
		return nil
	}
	p, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if _, err := a.w.Write(append(printableJSON(p), '\n')); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func newWriter(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }
