package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) topicsCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "topics", Short: "List, describe, create, change, reassign and delete topics, calculate segment settings"})
	c.AddCommand(a.topicsList(), a.topicsDescribe(), a.topicsCreate(), a.topicsAlter(), a.topicsGrow(), a.topicsDelete(), a.topicsOffsets(), a.topicsDeleteRecords(), a.topicsReassign(), a.topicsAdvise())
	return c
}

func (a *app) topicsList() *cobra.Command {
	var tg target
	internal := false
	c := &cobra.Command{Use: "list", Short: "List topics", Args: cobra.NoArgs,
		Long:    "list prints every topic with its number of partitions and its id.",
		Example: "  strata topics list -b localhost:9092\n  strata topics list --dir data --internal"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		topics, err := c.admin.ListTopicsWithInternal(ctx)
		if err != nil {
			return err
		}
		for _, t := range topics.Sorted() {
			if t.IsInternal && !internal {
				continue
			}
			if err := a.emit(topicLine{Type: "topic", Name: t.Topic, ID: uuid(t.ID), Partitions: len(t.Partitions), Internal: t.IsInternal}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().BoolVar(&internal, "internal", false, "include internal topics")
	return c
}

type topicLine struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int               `json:"partitions"`
	Internal   bool              `json:"internal"`
	Configs    map[string]string `json:"configs,omitempty"` // settings that are not defaults
}

func (l topicLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %d partitions, id %s\n", l.Name, l.Partitions, l.ID)
	for _, k := range slices.Sorted(maps.Keys(l.Configs)) {
		fmt.Fprintf(w, "  %s=%s\n", k, l.Configs[k])
	}
}

type partitionLine struct {
	Type        string  `json:"type"`
	Topic       string  `json:"topic"`
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Start       int64   `json:"startOffset"`
	End         int64   `json:"endOffset"`
	Error       string  `json:"error,omitempty"`
	Helps       string  `json:"helps,omitempty"` // what Error means for clients, and what helps
}

func (l partitionLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  %d: offsets %d..%d, leader %d (epoch %d), replicas %v, in sync %v", l.Partition, l.Start, l.End, l.Leader, l.LeaderEpoch, l.Replicas, l.ISR)
	if l.Error != "" {
		fmt.Fprintf(w, ", %s", l.Error)
	}
	fmt.Fprintln(w)
	if l.Helps != "" {
		fmt.Fprintf(w, "     %s\n", l.Helps)
	}
}

func (a *app) topicsDescribe() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "describe [TOPIC...]", Short: "Show partitions, offsets and settings of topics",
		Long: "describe prints each topic with the settings that are not defaults, and each of its partitions: first and next offset, leader, replicas, and the\n" +
			"error of a partition that is offline, has met damaged records, or lacks in-sync replicas.\n" +
			"Without a name it prints all topics except internal ones.",
		Example: "  strata topics describe orders -b localhost:9092\n  strata topics describe orders payments --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		if len(names) == 0 {
			topics, err := c.admin.ListTopics(ctx)
			if err != nil || len(topics) == 0 {
				return err
			}
			names = topics.Names()
		}
		return a.describeTopics(ctx, c.asker, names)
	})
	tg.flags(c)
	return c
}

func (a *app) describeTopics(ctx context.Context, ask asker, names []string) error {
	admin := ask.admin
	topics, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return err
	}
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return fmt.Errorf("%s: %w", t.Topic, t.Err)
		}
	}
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return err
	}
	// A partition without a leader has no offsets: its line has the error.
	starts, err := admin.ListStartOffsets(ctx, names...)
	if err = ofSome(err); err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
	if err = ofSome(err); err != nil {
		return err
	}
	impaired, err := impairments(ctx, ask, topics)
	if err != nil {
		return err
	}
	for _, t := range topics.Sorted() {
		l := topicLine{"topic", t.Topic, uuid(t.ID), len(t.Partitions), t.IsInternal, map[string]string{}}
		rc, err := configs.On(t.Topic, nil)
		if err != nil {
			return err
		}
		for _, k := range rc.Configs {
			if k.Source == kmsg.ConfigSourceDynamicTopicConfig && k.Value != nil {
				l.Configs[k.Key] = *k.Value
			}
		}
		if err := a.emit(l); err != nil {
			return err
		}
		for _, p := range t.Partitions.Sorted() {
			start, okStart := starts.Lookup(t.Topic, p.Partition)
			end, okEnd := ends.Lookup(t.Topic, p.Partition)
			if !okStart || !okEnd {
				start.Offset, end.Offset = -1, -1
				start.Err = cmp.Or(start.Err, end.Err, error(kerr.LeaderNotAvailable))
			}
			l := partitionLine{"partition", t.Topic, p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, start.Offset, end.Offset, "", ""}
			if err := cmp.Or(p.Err, start.Err, end.Err, impaired[t.Topic][p.Partition]); err != nil {
				l.Error, l.Helps = err.Error(), impairedText(err)
			}
			if err := a.emit(l); err != nil {
				return err
			}
		}
	}
	return nil
}
