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
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) topicsCreate() *cobra.Command {
	var tg target
	var partitions int32
	var replication int16
	var set []string
	c := &cobra.Command{Use: "create TOPIC...", Short: "Create topics", Args: cobra.MinimumNArgs(1),
		Long: "create creates topics with the given number of partitions and settings; the rest are the broker's defaults.",
		Example: "  strata topics create orders --partitions 6 -b localhost:9092\n" +
			"  strata topics create state --set cleanup.policy=compact --set segment.ms=3600000 --dir data"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		configs, err := parseSet(set)
		if err != nil {
			return err
		}
		if partitions < 1 && partitions != -1 || replication < 1 && replication != -1 {
			return misuse("--partitions and --replication-factor are 1 or more, or -1 for the broker's default")
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

// configChanges parses --set and --unset.
func configChanges(set, unset []string) ([]kadm.AlterConfig, error) {
	values, err := parseSet(set)
	if err != nil {
		return nil, err
	}
	var changes []kadm.AlterConfig
	for _, k := range slices.Sorted(maps.Keys(values)) {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: values[k]})
	}
	for _, k := range unset {
		if values[k] != nil {
			return nil, misuse("%s is in both --set and --unset", k)
		}
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: k})
	}
	if len(changes) == 0 {
		return nil, misuse("nothing to change: give --set or --unset")
	}
	return changes, nil
}

func (a *app) topicsAlter() *cobra.Command {
	var tg target
	var set, unset []string
	c := &cobra.Command{Use: "alter TOPIC...", Short: "Change settings of topics", Args: cobra.MinimumNArgs(1),
		Long:    "alter changes settings of topics, or resets them to their defaults. Changes take effect at once.",
		Example: "  strata topics alter orders --set retention.ms=3600000 --unset segment.ms -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		changes, err := configChanges(set, unset)
		if err != nil {
			return err
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
	c.Flags().StringArrayVar(&unset, "unset", nil, "a setting to reset to its default; may be repeated")
	return c
}

func (a *app) topicsGrow() *cobra.Command {
	var tg target
	var total int
	c := &cobra.Command{Use: "add-partitions TOPIC...", Short: "Add partitions to topics", Args: cobra.MinimumNArgs(1),
		Long:    "add-partitions increases the number of partitions of topics to --total. Existing records stay where they are. New records of a key may go to another partition.",
		Example: "  strata topics add-partitions orders --total 12 -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		if total < 1 {
			return misuse("--total %d: a topic has at least one partition", total)
		}
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
	c.Flags().IntVar(&total, "total", 0, "new number of partitions")
	_ = c.MarkFlagRequired("total")
	return c
}

func (a *app) topicsDelete() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "delete TOPIC...", Short: "Delete topics with all their records", Args: cobra.MinimumNArgs(1),
		Long:    "delete removes topics and their records permanently.",
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

// doneLine reports an operation on a topic or group.
type doneLine struct {
	Type string `json:"type"` // "created", "deleted", ...
	Name string `json:"name"`
}

func (l doneLine) writeText(w io.Writer) { fmt.Fprintf(w, "%s %s\n", l.Type, l.Name) }

func parseSet(set []string) (map[string]*string, error) {
	m := map[string]*string{}
	for _, s := range set {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, misuse("--set %s: must be key=value", s)
		}
		if m[k] != nil {
			return nil, misuse("--set %s is given twice", k)
		}
		m[k] = &v
	}
	return m, nil
}

// withMessage returns err with name and, if it is an error code, with the broker's message.
func withMessage(name string, err error, message string) error {
	if refused, ok := errors.AsType[*kerr.Error](err); ok && message != "" {
		err = &refusal{refused, message}
	}
	return fmt.Errorf("%s: %w", name, err)
}
