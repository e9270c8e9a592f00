package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *app) groupsCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "groups", Short: "List, describe, watch, change, reset and delete consumer groups"})
	c.AddCommand(a.groupsList(), a.groupsDescribe(), a.groupsLag(), a.groupsAlter(), a.groupsReset(), a.groupsDelete())
	return c
}

func (a *app) groupsList() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "list", Short: "List groups", Args: cobra.NoArgs,
		Long:    "list prints every group with its state.",
		Example: "  strata groups list -b localhost:9092\n  strata groups list --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		groups, err := c.admin.ListGroups(ctx)
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

// listedLine is a group in the list of a coordinator. The commands describe and lag have members
// and lag.
type listedLine struct {
	Type         string `json:"type"`
	Group        string `json:"group"`
	State        string `json:"state"`
	ProtocolType string `json:"protocolType"`
}

func (l listedLine) writeText(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", l.Group, l.State) }

type groupLine struct {
	Type         string `json:"type"`
	Group        string `json:"group"`
	State        string `json:"state"`
	ProtocolType string `json:"protocolType"`
	Protocol     string `json:"protocol,omitempty"`
	Members      int    `json:"members"`
	Lag          int64  `json:"lag"` // over all partitions
}

func (l groupLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %d members", l.Group, l.State, l.Members)
	if l.Protocol != "" {
		fmt.Fprintf(w, " (%s)", l.Protocol)
	}
	fmt.Fprintf(w, ", lag %d\n", l.Lag)
}

type memberLine struct {
	Type       string   `json:"type"`
	Group      string   `json:"group"`
	Member     string   `json:"member"`
	Instance   string   `json:"instance,omitempty"`
	ClientID   string   `json:"clientId"`
	Host       string   `json:"host"`
	Partitions []string `json:"partitions"`
	Standbys   []string `json:"standbys,omitempty"` // standby and warm-up tasks of a member of a streams group
}

func (l memberLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  member %s (%s at %s): %s", l.Member, l.ClientID, l.Host, strings.Join(l.Partitions, " "))
	if len(l.Standbys) > 0 {
		fmt.Fprintf(w, " (standby for %s)", strings.Join(l.Standbys, " "))
	}
	fmt.Fprintln(w)
}

type lagLine struct {
	Type      string `json:"type"`
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: nothing
	End       int64  `json:"endOffset"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
	Error     string `json:"error,omitempty"`
}

func (l lagLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  %s-%d: committed %d of %d, lag %d", l.Topic, l.Partition, l.Committed, l.End, l.Lag)
	if l.Member != "" {
		fmt.Fprintf(w, ", read by %s", l.Member)
	}
	if l.Error != "" {
		fmt.Fprintf(w, ", %s", l.Error)
	}
	fmt.Fprintln(w)
}

func (a *app) groupsDescribe() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "describe GROUP...", Short: "Show members, committed offsets and lag of groups", Args: cobra.MinimumNArgs(1),
		Long:    "describe prints each group, its members with their partitions, and the committed offset, end offset and lag of each partition.",
		Example: "  strata groups describe billing -b localhost:9092\n  strata groups describe billing --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		groups, err := lookAtGroups(ctx, c.asker, names...)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if g.err != nil {
				return fmt.Errorf("%s: %w", g.Group, g.err)
			}
			if err := a.describeGroup(g); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}

func (a *app) describeGroup(g groupSeen) error {
	if err := a.emit(g.groupLine); err != nil {
		return err
	}
	for _, m := range g.members {
		if err := a.emit(m); err != nil {
			return err
		}
	}
	for _, p := range g.parts {
		if err := a.emit(p.lagLine); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) groupsReset() *cobra.Command {
	var tg target
	var topics []string
	var to string
	c := &cobra.Command{Use: "reset GROUP", Short: "Set the committed offsets of a group without members", Args: cobra.ExactArgs(1),
		Long: "reset commits offsets for all partitions of the given topics. The group must have no members; it is created if it does not exist.\n" +
			"--to is earliest, latest, an offset, or a time (RFC 3339), which means the first record of that time or later. An offset beyond the end\n" +
			"of a partition is an error, and nothing is changed. An offset before the first record means the first record.",
		Example: "  strata groups reset billing --topic orders --to earliest -b localhost:9092\n" +
			"  strata groups reset billing --topic orders --to 2026-01-31T12:00:00Z --dir data"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		offsets, err := resolveWithin(ctx, c.admin, to, topics)
		if err != nil {
			return err
		}
		commit := kadm.Offsets{}
		for _, o := range offsets {
			commit.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.Offset, LeaderEpoch: -1})
		}
		rs, err := c.admin.CommitOffsets(ctx, args[0], commit)
		if err != nil {
			return err
		}
		for _, r := range rs.Sorted() {
			if r.Err != nil {
				return fmt.Errorf("%s, %s-%d: %w", args[0], r.Topic, r.Partition, whyNotReset(ctx, c.asker, args[0], r.Err))
			}
			if err := a.emit(resetLine{"reset", args[0], r.Topic, r.Partition, r.At}); err != nil {
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

// whyNotReset explains err if the group has members. A coordinator accepts commits only from
// members then, and returns UNKNOWN_MEMBER_ID.
func whyNotReset(ctx context.Context, ask asker, group string, err error) error {
	seen, serr := lookAtGroups(ctx, ask, group)
	if serr != nil || len(seen[0].members) == 0 {
		return err
	}
	return fmt.Errorf("the group has %d members: stop them before a reset (%w)", len(seen[0].members), err)
}

type resetLine struct {
	Type      string `json:"type"`
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (l resetLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s-%d is at %d\n", l.Group, l.Topic, l.Partition, l.Offset)
}

func (a *app) groupsDelete() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "delete GROUP...", Short: "Delete groups without members, with their offsets", Args: cobra.MinimumNArgs(1),
		Long:    "delete removes groups and their committed offsets. They must have no members.",
		Example: "  strata groups delete billing -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		return a.deleteGroups(ctx, c, names)
	})
	tg.flags(c)
	return c
}

func (a *app) deleteGroups(ctx context.Context, c *conn, names []string) error {
	rs, err := c.admin.DeleteGroups(ctx, names...)
	if err != nil {
		return err
	}
	for _, r := range rs.Sorted() {
		if r.Err != nil {
			return fmt.Errorf("%s: %w", r.Group, whyHasMembers(r.Err))
		}
		if err := a.emit(doneLine{"deleted", r.Group}); err != nil {
			return err
		}
	}
	return nil
}
