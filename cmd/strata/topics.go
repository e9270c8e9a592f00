package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) topicsCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "topics", Short: "List, describe, create, change and delete topics, advise on their segments"})
	c.AddCommand(a.topicsList(), a.topicsDescribe(), a.topicsCreate(), a.topicsAlter(), a.topicsGrow(), a.topicsDelete(), a.topicsAdvise())
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
	c.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	return c
}

type topicLine struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int               `json:"partitions"`
	Internal   bool              `json:"internal"`
	Configs    map[string]string `json:"configs,omitempty"` // those that are not defaults
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
}

func (l partitionLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  %d: offsets %d..%d, leader %d (epoch %d), replicas %v, in sync %v", l.Partition, l.Start, l.End, l.Leader, l.LeaderEpoch, l.Replicas, l.ISR)
	if l.Error != "" {
		fmt.Fprintf(w, ", %s", l.Error)
	}
	fmt.Fprintln(w)
}

func (a *app) topicsDescribe() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "describe TOPIC...", Short: "Show partitions, offsets and settings of topics", Args: cobra.MinimumNArgs(1),
		Long:    "describe prints each topic with the settings that are not defaults, and each of its partitions: first and next offset, leader, replicas.",
		Example: "  strata topics describe orders -b localhost:9092\n  strata topics describe orders payments --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		return a.describeTopics(ctx, c.admin, names)
	})
	tg.flags(c)
	return c
}

func (a *app) describeTopics(ctx context.Context, admin *kadm.Client, names []string) error {
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
	starts, err := admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
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
			start, _ := starts.Lookup(t.Topic, p.Partition)
			end, _ := ends.Lookup(t.Topic, p.Partition)
			l := partitionLine{"partition", t.Topic, p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, start.Offset, end.Offset, ""}
			if err := errors.Join(p.Err, start.Err, end.Err); err != nil {
				l.Error = err.Error()
			}
			if err := a.emit(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// doneLine says that something was done to a topic or group.
type doneLine struct {
	Type string `json:"type"` // "created", "deleted", ...
	Name string `json:"name"`
}

func (l doneLine) writeText(w io.Writer) { fmt.Fprintf(w, "%s %s\n", l.Type, l.Name) }

func (a *app) topicsCreate() *cobra.Command {
	var tg target
	var partitions int32
	var replication int16
	var set []string
	c := &cobra.Command{Use: "create TOPIC...", Short: "Create topics", Args: cobra.MinimumNArgs(1),
		Long: "create makes topics with the given number of partitions and settings; what is not given is the broker's default.",
		Example: "  strata topics create orders --partitions 6 -b localhost:9092\n" +
			"  strata topics create state --set cleanup.policy=compact --set segment.ms=3600000 --dir data"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		configs, err := parseSet(set)
		if err != nil {
			return err
		}
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		for _, name := range names {
			if r, err := c.admin.CreateTopic(ctx, partitions, replication, configs, name); err != nil {
				return withMessage(name, err, r.ErrMessage)
			}
			if err := a.emit(doneLine{"created", name}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1: the broker's default")
	c.Flags().Int16Var(&replication, "replication-factor", -1, "number of replicas; -1: the broker's default")
	c.Flags().StringArrayVar(&set, "set", nil, "a setting of the topic, key=value; may be repeated")
	return c
}

func parseSet(set []string) (map[string]*string, error) {
	m := map[string]*string{}
	for _, s := range set {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, misuse("--set %s: it is key=value", s)
		}
		m[k] = &v
	}
	return m, nil
}

func withMessage(name string, err error, message string) error {
	if message != "" {
		return fmt.Errorf("%s: %w (%s)", name, err, message)
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (a *app) topicsAlter() *cobra.Command {
	var tg target
	var set, unset []string
	c := &cobra.Command{Use: "alter TOPIC...", Short: "Change settings of topics", Args: cobra.MinimumNArgs(1),
		Long:    "alter sets settings of topics, or returns them to their defaults. It takes effect at once.",
		Example: "  strata topics alter orders --set retention.ms=3600000 --unset segment.ms -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		values, err := parseSet(set)
		if err != nil {
			return err
		}
		var changes []kadm.AlterConfig
		for _, k := range slices.Sorted(maps.Keys(values)) {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: values[k]})
		}
		for _, k := range unset {
			changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: k})
		}
		if len(changes) == 0 {
			return misuse("nothing to change: name --set or --unset")
		}
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		rs, err := c.admin.AlterTopicConfigs(ctx, changes, names...)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Err != nil {
				return withMessage(r.Name, r.Err, r.ErrMessage)
			}
			if err := a.emit(doneLine{"altered", r.Name}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringArrayVar(&set, "set", nil, "a setting of the topic, key=value; may be repeated")
	c.Flags().StringArrayVar(&unset, "unset", nil, "a setting that returns to its default; may be repeated")
	return c
}

func (a *app) topicsGrow() *cobra.Command {
	var tg target
	var total int
	c := &cobra.Command{Use: "add-partitions TOPIC...", Short: "Give topics more partitions", Args: cobra.MinimumNArgs(1),
		Long:    "add-partitions grows topics to a number of partitions. Records stay where they are; where a key goes changes from now on.",
		Example: "  strata topics add-partitions orders --total 12 -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		rs, err := c.admin.UpdatePartitions(ctx, total, names...)
		if err != nil {
			return err
		}
		for _, r := range rs.Sorted() {
			if r.Err != nil {
				return withMessage(r.Topic, r.Err, r.ErrMessage)
			}
			if err := a.emit(doneLine{"grown", r.Topic}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().IntVar(&total, "total", 0, "number of partitions afterwards")
	_ = c.MarkFlagRequired("total")
	return c
}

func (a *app) topicsDelete() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "delete TOPIC...", Short: "Delete topics with all their records", Args: cobra.MinimumNArgs(1),
		Long:    "delete removes topics and their records, for good.",
		Example: "  strata topics delete orders -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		rs, err := c.admin.DeleteTopics(ctx, names...)
		if err != nil {
			return err
		}
		for _, r := range rs.Sorted() {
			if r.Err != nil {
				return withMessage(r.Topic, r.Err, r.ErrMessage)
			}
			if err := a.emit(doneLine{"deleted", r.Topic}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}
