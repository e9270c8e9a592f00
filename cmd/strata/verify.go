package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/cmd/internal/verify"
	"github.com/stratalog/strata/log"
)

func (a *app) verifyCmd() *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every byte of a partition, a broker's directory, or all brokers of a directory",
		Long: "verify reads logs of Strata or Apache Kafka: every batch's CRC, the order of offsets and epochs, every index entry against the\n" +
			"segments, snapshots, checkpoints, identities. It changes nothing, takes no lock, and opens nothing for writing. Beside a live writer\n" +
			"damage in a partition is believed when three checks in a row have found it.\n\n" +
			"It prints what is damaged, with file and position, and notes about what is unusual but harmless (an incomplete last batch after a crash),\n" +
			"among them what recovery would do to the files when the log is opened next.\n" +
			"The exit code is 1 if anything is damaged. A terminal is shown on standard error how far it is.",
		Example: "  strata verify data                       # all brokers of a directory that strata serve was given\n" +
			"  strata verify data/broker-1/orders-0     # one partition\n" +
			"  strata verify /var/lib/kafka/data        # Apache Kafka's\n" +
			"  strata verify --json data | jq 'select(.severity == \"damage\")'",
		Args: cobra.ExactArgs(1),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error { return a.verify(ctx, args[0], o) })
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print no progress and no notes")
	return c
}

type verifyOptions struct {
	quiet bool
}

func (a *app) verify(ctx context.Context, dir string, o verifyOptions) error {
	var printing error
	began := time.Now()
	tell, done := a.progress()
	if o.quiet {
		tell = func(func() string) {}
	}
	counts, err := verify.Dir(ctx, dir, verify.Options{
		FS: a.fs,
		Found: func(f verify.Finding) {
			if f.Severity == verify.Damage || !o.quiet {
				printing = errors.Join(printing, a.emit(newFindingLine(f)))
			}
		},
		Plan: a.planRecovery,
		Step: func(n verify.Counts, where string) {
			tell(func() string {
				return fmt.Sprintf("%s: %d partitions, %d segments, %s, %d damaged; at %s",
					time.Since(began).Round(time.Second), n.Partitions, n.Segments, size(n.Bytes), n.Damages, where)
			})
		},
	})
	done()
	switch {
	case errors.Is(err, verify.ErrNoLogs), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return misuse("%v", err)
	case err != nil:
		return err
	case printing != nil:
		return printing
	}
	if err := a.emit(summaryLine{"summary", dir, counts}); err != nil {
		return err
	}
	if counts.Damages > 0 {
		return errSilent
	}
	return nil
}

// planRecovery says what opening a log would do to its files, without doing it.
func (a *app) planRecovery(dir string) (lines []string, err error) {
	rep, err := log.PlanRecovery(dir, log.Config{FS: a.fs})
	for _, s := range rep.Steps {
		line := s.Action
		if s.Reason != "" {
			line += " (" + s.Reason + ")"
		}
		lines = append(lines, line)
	}
	return lines, err
}

type findingLine struct {
	Type     string          `json:"type"`
	Severity verify.Severity `json:"severity"`
	Path     string          `json:"path"`
	Position *int64          `json:"position,omitempty"`
	Text     string          `json:"text"`
}

func newFindingLine(f verify.Finding) findingLine {
	l := findingLine{Type: "finding", Severity: f.Severity, Path: f.Path, Text: f.Text}
	if f.Pos >= 0 {
		l.Position = &f.Pos
	}
	return l
}

func (l findingLine) writeText(w io.Writer) {
	word := "note  "
	if l.Severity == verify.Damage {
		word = "DAMAGE"
	}
	at := ""
	if l.Position != nil {
		at = fmt.Sprintf(" at %d", *l.Position)
	}
	fmt.Fprintf(w, "%s %s%s: %s\n", word, l.Path, at, l.Text)
}

type summaryLine struct {
	Type string `json:"type"`
	Dir  string `json:"dir"`
	verify.Counts
}

func (l summaryLine) writeText(w io.Writer) {
	verdict := "all good"
	if l.Damages > 0 {
		verdict = fmt.Sprintf("%d DAMAGED", l.Damages)
	}
	fmt.Fprintf(w, "%s: %d partitions, %d segments, %d files, %d batches, %d records, %s: %s, %d notes\n", l.Dir,
		l.Partitions, l.Segments, l.Files, l.Batches, l.Records, size(l.Bytes), verdict, l.Notes)
}

// size is a number of bytes as people read it.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
