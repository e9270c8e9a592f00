package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
)

func (a *app) backupCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup DIR TO",
		Short: "Copy a cluster, also while it is served, to another directory",
		Long: "backup copies the cluster in DIR to TO, which must not exist or be empty. Every batch is checked on the way. TO is a cluster of its own:\n" +
			"nothing is shared, and it can be served, verified or restored. A backup that is interrupted leaves nothing, or a directory that does not open.\n\n" +
			"If `strata serve` has DIR open, its process makes the copy, with its rights, while clients go on; no committed offset in it points past\n" +
			"the records. It is asked through a socket in DIR that only the user who serves can reach. If nobody has DIR open, backup opens it, which\n" +
			"recovers it if it was killed. An application that has it open copies it itself: strata.Cluster.Backup.",
		Example: "  strata backup data /backups/monday\n" +
			"  strata verify /backups/monday",
		Args: cobra.ExactArgs(2),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error { return a.backup(ctx, args[0], args[1]) })
	return c
}

func (a *app) backup(ctx context.Context, dir, to string) error {
	if err := a.there(dir); err != nil {
		return err
	}
	if !a.hasCluster(dir) { // opened, it would be made
		return misuse("%s: no cluster is there", dir)
	}
	cluster, err := strata.Open(strata.Config{Dir: dir, FS: a.fs})
	switch {
	case errors.Is(err, replication.ErrLocked):
		if served := backupServed(ctx, dir, to); errors.Is(served, errNotServed) {
			err = fmt.Errorf("%w: %w", err, served)
		} else {
			err = served
		}
	case err == nil:
		err = errors.Join(cluster.Backup(ctx, to), cluster.Close())
	}
	if err != nil {
		return err
	}
	return a.emit(copyLine{"backup", dir, to})
}

// hasCluster reports whether something of a cluster is in dir, which may be served from elsewhere.
func (a *app) hasCluster(dir string) bool {
	entries, err := a.fs.ReadDir(dir)
	return err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "broker-") || e.Name() == ".control"
	})
}

func (a *app) restoreCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore BACKUP DIR",
		Short: "Check a backup and copy it to where it is to be served",
		Long: "restore checks every byte of BACKUP, as verify does, and copies it to DIR, which must not exist or be empty. BACKUP is only read, and may be\n" +
			"any directory of a cluster that is not open. If anything is damaged nothing is copied and the exit code is 1.",
		Example: "  strata restore /backups/monday data\n" +
			"  strata serve --dir data",
		Args: cobra.ExactArgs(2),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := a.verify(ctx, args[0], verifyOptions{quiet: true}); err != nil {
			return err
		}
		if err := replication.Restore(ctx, a.fs, args[0], args[1]); err != nil {
			return err
		}
		return a.emit(copyLine{"restore", args[0], args[1]})
	})
	return c
}

type copyLine struct {
	Type string `json:"type"`
	From string `json:"from"`
	To   string `json:"to"`
}

func (l copyLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s copied to %s\n", l.Type, l.From, l.To)
}
