package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/mirror"
)

func (a *app) copyCmd() *cobra.Command {
	var tg target
	var cfg mirror.CopyConfig
	var once bool
	c := &cobra.Command{
		Use: "copy TOPIC... --to DIR", Short: "Keep a copy of topics of a running cluster in a directory", Args: cobra.MinimumNArgs(1),
		Long: "copy copies topics to a directory, with the same offsets, leader epochs and transaction markers, and follows the cluster until it is\n" +
			"interrupted. It can be interrupted, killed and started again. If the cluster is lost, strata promote makes a new one of the copy.\n" +
			"With __consumer_offsets as one of the topics, groups keep their offsets there.\n\n" +
			"The command fails rather than keep other records than the cluster: if a topic was deleted, if the cluster is another one, or if it has lost\n" +
			"records that were copied. The cluster must answer at the start; when it is unreachable later, the command waits and tries again.\n\n" +
			"The exit code is 0 after an interrupt, and with --once when everything is copied.",
		Example: "  strata copy orders __consumer_offsets -b central:9092 --to copy\n" +
			"  strata verify copy\n" +
			"  strata promote copy\n" +
			"  strata serve --dir copy",
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		if cfg.Dir == "" {
			return misuse("--to DIR is missing: the directory of the copy")
		}
		cfg.Topics = args
		return a.copy(ctx, &tg, cfg, once)
	})
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&cfg.Dir, "to", "", "directory of the copy")
	f.BoolVar(&once, "once", false, "end when the copy has caught up")
	f.BoolVar(&cfg.AcceptTruncation, "accept-truncation", false, "remove copied records that the cluster has lost")
	return c
}

func (a *app) copy(ctx context.Context, tg *target, cfg mirror.CopyConfig, once bool) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	from, err := a.client(ctx, tg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	cfg.FS, cfg.Logger = a.fs, slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c, err := mirror.OpenCopy(from, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	run, end := context.WithCancel(ctx)
	defer end()
	tell, done := a.progress()
	defer done()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(run) }()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for caughtUp := false; ; {
		select {
		case err := <-ended:
			if err == nil && once && !caughtUp {
				err = errors.New("interrupted before everything was copied")
			}
			if err != nil {
				return err
			}
			st := c.Stats()
			return a.emit(copiedLine{"copy", cfg.Dir, st.Records, st.Bytes, st.Skipped})
		case <-every.C:
			st := c.Stats()
			if once && !caughtUp && st.Lag == 0 {
				caughtUp = true
				end()
			}
			tell(func() string {
				text := fmt.Sprintf("%d records copied", st.Records)
				if st.Lag >= 0 {
					text += fmt.Sprintf(", %d to go", st.Lag)
				}
				if st.Connected.IsZero() && st.LastError != nil {
					text += "; trying again"
				}
				return text
			})
		}
	}
}

type copiedLine struct {
	Type    string `json:"type"`
	Dir     string `json:"dir"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
	Skipped int64  `json:"skipped"`
}

func (l copiedLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %d records copied, %d bytes\n", l.Dir, l.Records, l.Bytes)
	if l.Skipped > 0 {
		fmt.Fprintf(w, "%d offsets were deleted at the cluster before they were copied\n", l.Skipped)
	}
}

func (a *app) promoteCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "promote DIR", Short: "Make a cluster of a copy whose source is lost", Args: cobra.ExactArgs(1),
		Long: "promote makes a cluster of one broker of a directory that strata copy has filled. Topics keep their ids and offsets. Open transactions\n" +
			"are aborted, since their outcome is not known. Records that were not copied are missing. No record is moved, so it is quick. If it\n" +
			"is interrupted, repeat it.",
		Example: "  strata promote copy\n" +
			"  strata serve --dir copy",
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := a.there(args[0]); err != nil {
			return err
		}
		logger := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		done, err := mirror.Promote(ctx, mirror.PromoteConfig{Dir: args[0], FS: a.fs, Logger: logger})
		if err != nil {
			return err
		}
		return a.emit(promotedLine{"promote", args[0], done.ClusterID, done.Topics, done.Partitions, done.Aborted})
	})
	return c
}

type promotedLine struct {
	Type       string `json:"type"`
	Dir        string `json:"dir"`
	ClusterID  string `json:"cluster_id"`
	Topics     int    `json:"topics"`
	Partitions int    `json:"partitions"`
	Aborted    int    `json:"aborted_transactions"`
}

func (l promotedLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s is cluster %s now: %d topics, %d partitions; %d open transactions aborted\n", l.Dir, l.ClusterID, l.Topics, l.Partitions, l.Aborted)
}
