package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) sharesCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "shares", Short: "List, describe, reset and delete share groups"})
	c.AddCommand(a.sharesList(), a.sharesDescribe(), a.sharesReset(), a.sharesForget(), a.sharesDelete())
	return c
}

func (a *app) sharesList() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "list", Short: "List share groups", Args: cobra.NoArgs,
		Long:    "list prints every share group with its state.",
		Example: "  strata shares list -b localhost:9092\n  strata shares list --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		groups, err := c.admin.ListGroupsByType(ctx, []string{"share"})
		if err != nil {
			return err
		}
		for _, g := range groups.Sorted() {
			if err := a.emit(listedLine{"group", g.Group, g.State, g.ProtocolType}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}

// shareLine is a share group.
type shareLine struct {
	Type    string `json:"type"`
	Group   string `json:"group"`
	State   string `json:"state"`
	Members int    `json:"members"`
}

func (l shareLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %d members\n", l.Group, l.State, l.Members)
}

// shareStartLine is the position of a share group in a partition.
type shareStartLine struct {
	Type      string `json:"type"`
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"startOffset"` // -1: the group has not started there
	Lag       int64  `json:"lag"`         // records from Start on that are not done; -1: unknown
	Error     string `json:"error,omitempty"`
}

func (l shareStartLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  %s-%d: start offset %d, lag %d", l.Topic, l.Partition, l.Start, l.Lag)
	if l.Error != "" {
		fmt.Fprintf(w, ", %s", l.Error)
	}
	fmt.Fprintln(w)
}

func (a *app) sharesDescribe() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "describe GROUP...", Short: "Show members and positions of share groups", Args: cobra.MinimumNArgs(1),
		Long: "describe prints each share group, its members with their partitions, and the start offset and lag of each partition. All records before the\n" +
			"start offset are done. The lag is the number of records from there on that are not done.",
		Example: "  strata shares describe mailers -b localhost:9092\n  strata shares describe mailers --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		described, err := c.admin.DescribeShareGroups(ctx, names...)
		if err != nil {
			return err
		}
		starts, err := c.admin.DescribeShareGroupOffsets(ctx, names...)
		if err != nil {
			return err
		}
		for _, g := range described.Sorted() {
			if errors.Is(g.Err, kerr.GroupIDNotFound) {
				return fmt.Errorf("%s: no such share group", g.GroupID)
			}
			if err := cmp.Or(g.Err, starts[g.GroupID].Err); err != nil {
				return fmt.Errorf("%s: %w", g.GroupID, err)
			}
			if err := a.describeShares(g, starts[g.GroupID].Offsets); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}

func (a *app) describeShares(g kadm.DescribedShareGroup, starts kadm.ShareOffsets) error {
	if err := a.emit(shareLine{"described", g.GroupID, g.GroupState, len(g.Members)}); err != nil {
		return err
	}
	for _, m := range g.Members {
		l := memberLine{Type: "member", Group: g.GroupID, Member: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []string{}}
		m.Assignment.Each(func(topic string, p int32) { l.Partitions = append(l.Partitions, fmt.Sprintf("%s-%d", topic, p)) })
		slices.Sort(l.Partitions)
		if err := a.emit(l); err != nil {
			return err
		}
	}
	for _, o := range starts.Sorted() {
		l := shareStartLine{"partition", g.GroupID, o.Topic, o.Partition, o.StartOffset, o.Lag, ""}
		if o.Err != nil {
			l.Error = o.Err.Error()
		}
		if err := a.emit(l); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sharesReset() *cobra.Command {
	var tg target
	var topics []string
	var to string
	c := &cobra.Command{Use: "reset GROUP", Short: "Set the start offsets of a share group without members", Args: cobra.ExactArgs(1),
		Long: "reset sets the start offset of the group in all partitions of the given topics, and deletes the state of records there. The group must have\n" +
			"no members; it is created if it does not exist. --to is earliest, latest, an offset, or a time (RFC 3339), which means the first record of\n" +
			"that time or later. An offset beyond the end of a partition is an error, and nothing is changed. An offset before the first record means\n" +
			"the first record.",
		Example: "  strata shares reset mailers --topic mails --to earliest -b localhost:9092\n" +
			"  strata shares reset mailers --topic mails --to 2026-01-31T12:00:00Z --dir data"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		offsets, err := resolveWithin(ctx, c.admin, to, topics)
		if err != nil {
			return err
		}
		begin := kadm.Offsets{}
		for _, o := range offsets {
			begin.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.Offset})
		}
		rs, err := c.admin.AlterShareGroupOffsets(ctx, args[0], begin)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], whyHasMembers(err))
		}
		for _, o := range offsets {
			if err, _ := rs.Lookup(o.Topic, o.Partition); err != nil {
				return fmt.Errorf("%s, %s-%d: %w", args[0], o.Topic, o.Partition, whyHasMembers(err))
			}
			if err := a.emit(resetLine{"reset", args[0], o.Topic, o.Partition, o.Offset}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringSliceVar(&topics, "topic", nil, "topic; several with commas")
	c.Flags().StringVar(&to, "to", "", "earliest, latest, an offset, or a time")
	_ = c.MarkFlagRequired("topic")
	_ = c.MarkFlagRequired("to")
	return c
}

// whyHasMembers explains err if it is NON_EMPTY_GROUP, and returns other errors unchanged.
func whyHasMembers(err error) error {
	if errors.Is(err, kerr.NonEmptyGroup) {
		return fmt.Errorf("the group has members: stop them first (%w)", err)
	}
	return err
}

func (a *app) sharesForget() *cobra.Command {
	var tg target
	var topics []string
	c := &cobra.Command{Use: "forget GROUP", Short: "Delete the state of a share group in topics", Args: cobra.ExactArgs(1),
		Long:    "forget deletes the state of a share group in topics: start offsets and the state of records. The group must have no members.",
		Example: "  strata shares forget mailers --topic mails -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		rs, err := c.admin.DeleteShareGroupOffsets(ctx, args[0], topics...)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], whyHasMembers(err))
		}
		for _, topic := range topics {
			if err, _ := rs.Lookup(topic); err != nil {
				return fmt.Errorf("%s, %s: %w", args[0], topic, whyHasMembers(err))
			}
			if err := a.emit(doneLine{"forgot", topic}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringSliceVar(&topics, "topic", nil, "topic; several with commas")
	_ = c.MarkFlagRequired("topic")
	return c
}

func (a *app) sharesDelete() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "delete GROUP...", Short: "Delete share groups without members, with their state", Args: cobra.MinimumNArgs(1),
		Long:    "delete removes share groups and their state. They must have no members. The name of a consumer group is an error.",
		Example: "  strata shares delete mailers -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		listed, err := c.admin.ListGroupsByType(ctx, []string{"share"})
		if err != nil {
			return err
		}
		var missing []string
		for _, name := range names {
			if _, ok := listed[name]; !ok {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%s: no such share group", strings.Join(missing, ", "))
		}
		return a.deleteGroups(ctx, c, names)
	})
	tg.flags(c)
	return c
}
