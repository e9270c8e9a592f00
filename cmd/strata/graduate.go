package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stratalog/strata/cmd/internal/verify"
	"github.com/stratalog/strata/kafkadir"
	"github.com/stratalog/strata/replication"
)

func (a *app) graduateCmd() *cobra.Command {
	var tg target
	var check, compare bool
	var dir string
	c := &cobra.Command{Use: "graduate --check|--compare --dir DIR", Short: "Check a move to Apache Kafka, before and after it", Args: cobra.NoArgs,
		Long: "graduate --check reads the directory of a cluster, changes nothing, and prints a line for each difference that its users will notice on Kafka 4\n" +
			"after strata export, with the action to take. It checks every byte of the records. A blocker must be removed before the export: the exit code\n" +
			"is 1 then. A change is a difference in behaviour; a note is information. Damage is a blocker if the export has no other replica that is whole.\n\n" +
			"graduate --compare compares the cluster in DIR with the running cluster of --bootstrap, after the export and before clients start there: ids,\n" +
			"replication factors and settings of topics, start and end of each partition, committed offsets and lag of each group, SCRAM users, access control\n" +
			"entries and client quotas. It prints each difference, and each part that the user has no right to read; the exit code is 1 if there is one of\n" +
			"either. Of users it compares mechanisms and iterations. It lists groups that only the running cluster has, ignores topics that only it has, and\n" +
			"share groups. Of internal topics it compares ids and numbers of partitions and replicas. It opens the cluster in DIR, which no process may have\n" +
			"open. All brokers of the running cluster must answer.",
		Example: "  strata graduate --check --dir data\n" +
			"  strata export --dir data --to /var/lib/kafka/data\n" +
			"  strata graduate --compare --dir data -b localhost:9092"}
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		switch {
		case check == compare:
			return misuse("graduate needs one of --check and --compare")
		case dir == "":
			return misuse("graduate needs --dir")
		}
		var unused error
		c.Flags().Visit(func(f *pflag.Flag) {
			if check && !slices.Contains([]string{"check", "dir", "json"}, f.Name) {
				unused = misuse("--check reads only the directory: it does not use --%s", f.Name)
			}
		})
		if unused != nil {
			return unused
		}
		if err := a.there(dir); err != nil {
			return err
		}
		if check {
			return a.graduateCheck(ctx, dir)
		}
		return a.graduateCompare(ctx, dir, &tg)
	})
	tg.clusterFlags(c)
	c.Flags().BoolVar(&check, "check", false, "check a directory before the move")
	c.Flags().BoolVar(&compare, "compare", false, "compare a directory with a running cluster after the move")
	c.Flags().StringVar(&dir, "dir", "", "directory of the cluster that moves")
	return c
}

func (a *app) graduateCheck(ctx context.Context, dir string) error {
	cfg := kafkadir.CheckConfig{Dir: dir, FS: a.fs}
	if _, err := kafkadir.Check(ctx, cfg); errors.Is(err, kafkadir.ErrForeign) { // before all files are read
		return moveError(err)
	}
	var err error
	if cfg.Damages, err = a.damages(ctx, dir); err != nil {
		return err
	}
	report, err := kafkadir.Check(ctx, cfg)
	if err != nil {
		return moveError(err)
	}
	for _, f := range report.Findings {
		if err := a.emit(graduateLine{"finding", f.Severity, f.About, f.Text, f.Do}); err != nil {
			return err
		}
	}
	l := graduateSummary{"summary", dir, report.Ready(), len(report.Brokers), report.Topics, report.Partitions, report.Replicas, report.Groups, report.Bytes}
	if err := a.emit(l); err != nil {
		return err
	}
	if !l.Ready {
		return errSilent
	}
	return nil
}

// damages checks every byte below dir, and compares dir with the list of a backup.
func (a *app) damages(ctx context.Context, dir string) (found []kafkadir.Damage, err error) {
	var damaged damagedPaths
	began := time.Now()
	tell, done := a.progress()
	defer done()
	_, err = verify.Dir(ctx, dir, verify.Options{
		FS: a.fs,
		Found: func(f verify.Finding) {
			if f.Severity == verify.Damage {
				damaged = append(damaged, f.Path)
				found = append(found, kafkadir.Damage{Path: f.Path, Text: f.Text})
			}
		},
		Plan: a.planRecovery,
		Step: func(n verify.Counts, where string) {
			tell(func() string {
				return fmt.Sprintf("%s: %d partitions, %s, %d damaged; at %s", time.Since(began).Round(time.Second), n.Partitions, size(n.Bytes), n.Damages, where)
			})
		},
	})
	if err != nil && !errors.Is(err, verify.ErrNoLogs) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, missing := replication.CheckBackup(a.fs, dir)
	all := directoryErrors(missing)
	if len(all) == 0 && missing != nil {
		return nil, missing
	}
	for _, e := range all {
		if !damaged.within(e.Dir) {
			found = append(found, kafkadir.Damage{Path: e.Dir, Text: e.Error()})
		}
	}
	return found, nil
}

// graduateLine is one difference between the cluster and Kafka.
type graduateLine struct {
	Type     string            `json:"type"`
	Severity kafkadir.Severity `json:"severity"`
	About    string            `json:"about"`
	Text     string            `json:"text"`
	Do       string            `json:"do,omitempty"`
}

func (l graduateLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%-7s %s: %s", l.Severity, l.About, l.Text)
	if l.Do != "" {
		fmt.Fprintf(w, " -> %s", l.Do)
	}
	fmt.Fprintln(w)
}

type graduateSummary struct {
	Type       string `json:"type"`
	Dir        string `json:"dir"`
	Ready      bool   `json:"ready"` // no blocker
	Brokers    int    `json:"brokers"`
	Topics     int    `json:"topics"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Groups     int    `json:"groups"`
	Bytes      int64  `json:"bytes"`
}

func (l graduateSummary) writeText(w io.Writer) {
	verdict := "ready for strata export"
	if !l.Ready {
		verdict = "NOT READY"
	}
	fmt.Fprintf(w, "%s: %d brokers, %d topics, %d partitions, %d replicas, %d groups; the copy needs %s unless the file system has reflinks: %s\n",
		l.Dir, l.Brokers, l.Topics, l.Partitions, l.Replicas, l.Groups, size(l.Bytes), verdict)
}
