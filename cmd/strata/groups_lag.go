package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/group"
)

func (a *app) groupsLag() *cobra.Command {
	var tg target
	var limit group.LagLimit
	var interval time.Duration
	c := &cobra.Command{Use: "lag [GROUP...]", Short: "Show the lag of groups, or the groups whose lag is beyond a limit",
		Long: "lag prints the lag of the named groups, or of all groups, summed over their partitions.\n\n" +
			"With --max-records or --max-drain it prints only groups beyond that limit, with the reason, and the exit code is 1 if there is one. A lag\n" +
			"of up to --max-records is within the limit. So is a larger lag that shrinks fast enough to reach 0 within --max-drain. The rate is measured\n" +
			"by two looks, --interval apart. If --interval is short, the pauses between commits distort the rate.",
		Example: "  strata groups lag -b localhost:9092\n  strata groups lag billing --max-records 1000 -b localhost:9092\n" +
			"  strata groups lag --max-records 1000 --max-drain 10m --json -b localhost:9092"}
	limited := false
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		limited = c.Flags().Changed("max-records") || c.Flags().Changed("max-drain")
		if limit.Records < 0 || limit.Drain < 0 || interval <= 0 {
			return misuse("--max-records and --max-drain cannot be negative, --interval must be above 0")
		}
		return nil
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		lags, err := tg.lags(ctx, c, names)
		if err != nil {
			return err
		}
		if limit.Drain > 0 {
			if lags, err = tg.drains(ctx, c, names, lags, interval); err != nil {
				return err
			}
		}
		return a.emitLags(lags, limit, limited)
	})
	tg.flags(c)
	f := c.Flags()
	f.Int64Var(&limit.Records, "max-records", 0, "largest lag, in records, within the limit")
	f.DurationVar(&limit.Drain, "max-drain", 0, "a larger lag is within the limit if the group catches up in this time; 0: never")
	f.DurationVar(&interval, "interval", 10*time.Second, "with --max-drain: time over which the rate is measured")
	return c
}

// lags returns the lag of the groups named, of all groups if names is empty. Drain is unknown. It
// returns an error if the lag of a partition is unknown; deleted topics are left out.
func (tg *target) lags(ctx context.Context, c *conn, names []string) ([]group.GroupLag, error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	seen, err := lookAtGroups(ctx, c.asker, names...)
	if err != nil {
		return nil, err
	}
	var lags []group.GroupLag
	for _, g := range seen {
		if err := g.lagError(); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Group, err)
		}
		lags = append(lags, group.GroupLag{Group: g.Group, Members: g.Members, Lag: g.Lag, Drain: group.DrainTime(g.Lag, 0, 0)})
	}
	return lags, nil
}

// drains measures the groups again after interval. It returns their lags at that time, with Drain
// set.
func (tg *target) drains(ctx context.Context, c *conn, names []string, earlier []group.GroupLag, interval time.Duration) ([]group.GroupLag, error) {
	begin := time.Now()
	select {
	case <-time.After(interval):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	lags, err := tg.lags(ctx, c, names)
	if err != nil {
		return nil, err
	}
	fillDrains(earlier, lags, time.Since(begin))
	return lags, nil
}

// fillDrains sets Drain of lags from the earlier lags, measured since ago. A new group keeps
// DrainUnknown.
func fillDrains(earlier, lags []group.GroupLag, since time.Duration) {
	was := make(map[string]int64, len(earlier))
	for _, l := range earlier {
		was[l.Group] = l.Lag
	}
	for i := range lags {
		if before, known := was[lags[i].Group]; known {
			lags[i].Drain = group.DrainTime(lags[i].Lag, before, since)
		}
	}
}

// emitLags prints all lags, or if limited only those beyond limit. It returns errSilent if a lag is
// beyond limit.
func (a *app) emitLags(lags []group.GroupLag, limit group.LagLimit, limited bool) (failed error) {
	for _, l := range lags {
		out := groupLagLine{Type: "lag", Group: l.Group, Members: l.Members, Lag: l.Lag}
		if limited {
			err := limit.Check(l)
			if err == nil {
				continue
			}
			failed, out.Reason = errSilent, err.Error()
		}
		if err := a.emit(out); err != nil {
			return err
		}
	}
	return failed
}

type groupLagLine struct {
	Type    string `json:"type"`
	Group   string `json:"group"`
	Members int    `json:"members"`
	Lag     int64  `json:"lag"`              // over all partitions
	Reason  string `json:"reason,omitempty"` // why the lag is beyond the limit
}

func (l groupLagLine) writeText(w io.Writer) {
	if l.Reason != "" {
		fmt.Fprintf(w, "%s, %d members\n", l.Reason, l.Members)
		return
	}
	fmt.Fprintf(w, "%s: lag %d, %d members\n", l.Group, l.Lag, l.Members)
}
