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

	running bool // arguments and flags are accepted: what fails now is no misuse
}

// errMisuse marks errors of whoever typed the command.
var errMisuse = errors.New("misuse")

// errSilent ends a command with exit code 1 that has said already what there is to say.
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
	fmt.Fprintf(s.err, "strata: %s\n", onceOnly.Replace(strings.TrimPrefix(err.Error(), "strata: ")))
	if errors.Is(err, errMisuse) || !a.running {
		return exitMisuse
	}
	return exitFailed
}

// version is that of the module the program was built of.
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
		Short: "Look into, check, serve and drive logs of Strata and Apache Kafka",
		Long: "strata works on the files of Strata and of Apache Kafka, and with running brokers of either.\n\n" +
			"Exit codes: 0 it is done; 1 it was understood and failed: brokers do not answer or refuse, what is named is not there, input is no record, files are\n" +
			"damaged, or something was found that the command is asked to warn of; 2 it was used wrongly: arguments, flags and settings that nothing can meet, or\n" +
			"no such directory or file to work on.",
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
	root.AddCommand(a.dumpCmd(), a.verifyCmd(), a.backupCmd(), a.restoreCmd(), a.importCmd(), a.exportCmd(), a.serveCmd(), a.clusterCmd(), a.topCmd(), a.topicsCmd(), a.groupsCmd(), a.transactionsCmd(), a.sharesCmd(), a.aclsCmd(), a.usersCmd(), a.quotasCmd(), a.produceCmd(), a.consumeCmd())
	return root
}

// parent makes c a command that only has others below it: without one of them it is misuse.
func (a *app) parent(c *cobra.Command) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		return misuse("%s what? %s", c.CommandPath(), strings.Join(names, ", "))
	}
	return c
}

// do is RunE of a command whose arguments were accepted.
func (a *app) do(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := nothingEmpty(c, args); err != nil {
			return err
		}
		a.running = true
		return fn(c.Context(), args)
	}
}

// mayBeEmpty are flags that mean something without a value.
var mayBeEmpty = []string{"key", "key-separator"}

// nothingEmpty refuses arguments and flags without a value, as a script gives them whose variable
// is not set: without a name much more would be meant, such as all topics. Values of records may be
// empty, and the settings of serve.
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

// A line is something to print: an object with --json, else text.
type line interface {
	writeText(w io.Writer)
}

// emit prints l.
func (a *app) emit(l line) error {
	if !a.json {
		l.writeText(a.w)
		return nil
	}
	p, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if _, err := a.w.Write(append(p, '\n')); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func newWriter(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }
