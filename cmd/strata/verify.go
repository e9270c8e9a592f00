package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/cmd/internal/verify"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/replication"
)

func (a *app) verifyCmd() *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every byte of a partition, of a broker's directory, or of a cluster's directory",
		Long: "verify checks logs of Strata or Apache Kafka: the CRC of every batch, the order of offsets and epochs, every index entry against the segments,\n" +
			"snapshots, checkpoints and identities. It changes nothing, acquires no lock, and opens no file for writing. While another process writes, it\n" +
			"reports damage in a partition only if three checks in a row find it.\n\n" +
			"It also compares the directories of Strata's brokers with the metadata and with the brokers' own evidence of their records: a directory of a\n" +
			"partition that is missing, empty, another partition's, or ends too early is damage, as the next open finds it. The directory of a broker alone is\n" +
			"compared with that broker's copy of the metadata. A broker that is running writes its evidence with a delay of some seconds.\n\n" +
			"It prints damage, with file and position, and notes about unusual but harmless findings, such as an incomplete last batch after a crash. Notes\n" +
			"include the changes that recovery would make when the log is opened next.\n" +
			"The exit code is 1 if anything is damaged. On a terminal, progress is shown on standard error.",
		Example: "  strata verify data                       # all brokers in a directory of strata serve\n" +
			"  strata verify data/broker-1/orders-0     # one partition\n" +
			"  strata verify /var/lib/kafka/data        # a log directory of Apache Kafka\n" +
			"  strata verify --json data | jq 'select(.severity == \"damage\")'",
		Args: cobra.ExactArgs(1),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error { return a.verify(ctx, args[0], o) })
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print neither progress nor notes")
	return c
}

type verifyOptions struct {
	quiet bool
}

func (a *app) verify(ctx context.Context, dir string, o verifyOptions) error {
	var printing error
	var damaged damagedPaths
	began := time.Now()
	tell, done := a.progress()
	if o.quiet {
		tell = func(func() string) {}
	}
	copied, incomplete := a.checkCopy(dir)
	counts, err := verify.Dir(ctx, dir, verify.Options{
		FS:   a.fs,
		Copy: copied,
		Found: func(f verify.Finding) {
			if f.Severity == verify.Damage {
				damaged = append(damaged, f.Path)
			}
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
	case err == nil && incomplete != nil:
		counts.Damages++
		printing = errors.Join(printing, a.emit(findingLine{"finding", verify.Damage, dir, nil, incomplete.Error()}))
	case err == nil && !copied:
		missing := a.missing(ctx, dir)
		for _, e := range directoryErrors(missing) {
			line := findingLine{"finding", verify.Damage, e.Dir, nil, e.Error()}
			if damaged.within(e.Dir) { // the same, as the next open finds it
				line.Severity = verify.Note
				counts.Notes++
			} else {
				counts.Damages++
			}
			if line.Severity == verify.Damage || !o.quiet {
				printing = errors.Join(printing, a.emit(line))
			}
		}
		if len(directoryErrors(missing)) == 0 {
			err = missing
		}
	}
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

// checkCopy reports whether dir, or the directory around it, is a copy of topics of another cluster,
// with the error if that is not complete.
func (a *app) checkCopy(dir string) (copied bool, err error) {
	if copied, err = mirror.CheckCopy(a.fs, dir); copied {
		return copied, err
	}
	around, _ := mirror.CheckCopy(a.fs, filepath.Dir(filepath.Clean(dir)))
	return around, nil
}

// missing compares dir with the list of a backup. If it has none, it compares dir with the metadata
// and evidence of the brokers.
func (a *app) missing(ctx context.Context, dir string) error {
	if listed, err := replication.CheckBackup(a.fs, dir); listed || err != nil {
		return err
	}
	return replication.CheckEvidence(ctx, a.fs, dir)
}

// damagedPaths has the paths of damaged files and directories.
type damagedPaths []string

// within reports whether dir or something below it is damaged.
func (ps damagedPaths) within(dir string) bool {
	return slices.ContainsFunc(ps, func(path string) bool {
		rel, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rel)
	})
}

// directoryErrors returns those in err, which may join several.
func directoryErrors(err error) (all []*replication.DirectoryError) {
	switch e := err.(type) {
	case *replication.DirectoryError:
		return append(all, e)
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			all = append(all, directoryErrors(joined)...)
		}
	}
	return all
}

// planRecovery returns what opening a log would do to its files. It changes none.
func (a *app) planRecovery(dir string) (p verify.Plan) {
	rep, err := log.PlanRecovery(dir, log.Config{FS: a.fs})
	if damage, ok := errors.AsType[*log.CorruptError](err); ok {
		p.Refused = &verify.Finding{Severity: verify.Damage, Path: damage.Path, Pos: damage.Pos, Text: damage.Reason}
	}
	for _, s := range rep.Steps {
		line := s.Action
		if s.Reason != "" {
			line += " (" + s.Reason + ")"
		}
		p.Steps = append(p.Steps, line)
	}
	return p
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

// size formats a number of bytes with a binary unit.
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
