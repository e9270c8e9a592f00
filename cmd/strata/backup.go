package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
)

func (a *app) backupCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup DIR TO",
		Short: "Copy a cluster to another directory, also while it is served",
		Long: "backup copies the cluster in DIR to TO, which must not exist or must be empty. Every batch is checked on the way. TO is an independent\n" +
			"cluster that can be served, verified or restored. An interrupted backup leaves nothing, or a directory that does not open.\n\n" +
			"If `strata serve` has DIR open, its process makes the copy, with its permissions, while clients continue. Every committed offset in the\n" +
			"copy is within the copied records. The request goes through a socket in DIR that only the user of that process can reach. If no process\n" +
			"has DIR open, backup opens it, which recovers it after a crash. An application that has DIR open calls strata.Cluster.Backup itself.",
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
	if !a.hasCluster(dir) { // Open would create one
		return misuse("%s: the directory has no cluster", dir)
	}
	cluster, err := strata.Open(asItIs(dir, a.fs))
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

// hasCluster reports whether dir has files of a cluster, which another process may be serving.
func (a *app) hasCluster(dir string) bool {
	entries, err := a.fs.ReadDir(dir)
	return err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		number, isBroker := strings.CutPrefix(e.Name(), "broker-")
		_, err := strconv.ParseUint(number, 10, 31)
		return isBroker && err == nil || e.Name() == ".control"
	})
}

func (a *app) restoreCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore BACKUP DIR",
		Short: "Check a backup and copy it to a directory to serve",
		Long: "restore checks every byte of BACKUP, as verify does, and copies it to DIR, which must not exist or must be empty. BACKUP is only read. It may\n" +
			"be any directory of a cluster that is not open. If BACKUP is damaged, nothing is copied and the exit code is 1.",
		Example: "  strata restore /backups/monday data\n" +
			"  strata serve --dir data",
		Args: cobra.ExactArgs(2),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := a.verify(ctx, args[0], verifyOptions{quiet: true}); err != nil {
			return err
		}
		if listed, err := replication.CheckBackup(a.fs, args[0]); err == nil && !listed {
			fmt.Fprintf(a.err, "strata: %s has no list of its content, or was opened since the backup: files that are missing may not be noticed\n", printable(args[0]))
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
