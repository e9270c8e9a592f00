package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *app) topicsOffsets() *cobra.Command {
	var tg target
	var at string
	c := &cobra.Command{Use: "offsets TOPIC...", Short: "Show the first, next or timestamp's offset of each partition", Args: cobra.MinimumNArgs(1),
		Long: "offsets prints the offset of --at in each partition. earliest is the first record, latest the next record to be written, a time (RFC 3339)\n" +
			"the first record of that time or later, or the end if there is none.",
		Example: "  strata topics offsets orders -b localhost:9092\n" +
			"  strata topics offsets orders --at 2026-01-31T12:00:00Z -b localhost:9092 --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		if _, notOffset := strconv.ParseInt(at, 10, 64); notOffset == nil {
			return misuse("--at %s: must be earliest, latest, or a time", at)
		}
		listed, err := resolve(ctx, c.admin, at, names)
		if err != nil {
			return err
		}
		for _, o := range listed {
			if err := a.emit(offsetLine{"offset", o.Topic, o.Partition, o.Offset}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringVar(&at, "at", "latest", "earliest, latest, or a time")
	return c
}

type offsetLine struct {
	Type      string `json:"type"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (l offsetLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s-%d@%d\n", l.Topic, l.Partition, l.Offset)
}

func (a *app) topicsDeleteRecords() *cobra.Command {
	var tg target
	var before string
	partition := int32(-1)
	c := &cobra.Command{Use: "delete-records TOPIC", Short: "Delete the first records of a topic's partitions", Args: cobra.ExactArgs(1),
		Long: "delete-records permanently removes the records before an offset. --before is latest (all present records), an offset, or a time (RFC 3339),\n" +
			"which means the first record of that time or later. It prints the new start offset of each partition.",
		Example: "  strata topics delete-records orders --before 2026-01-31T12:00:00Z -b localhost:9092\n" +
			"  strata topics delete-records orders --before 4200 --partition 0 -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		if partition < -1 {
			return misuse("--partition %d: must be at least 0, or -1 for all", partition)
		}
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		listed, err := resolve(ctx, c.admin, before, args)
		if err != nil {
			return err
		}
		var offsets kadm.Offsets
		for _, o := range listed {
			if partition < 0 || partition == o.Partition {
				offsets.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.Offset})
			}
		}
		if len(offsets) == 0 {
			return fmt.Errorf("%s: no partition %d", args[0], partition)
		}
		return a.deleteRecords(ctx, c.admin, offsets)
	})
	tg.flags(c)
	c.Flags().StringVar(&before, "before", "", "latest, an offset, or a time")
	c.Flags().Int32Var(&partition, "partition", -1, "only this partition; -1: all")
	_ = c.MarkFlagRequired("before")
	return c
}

// deleteRecords deletes records in all partitions that allow it, and returns the error of another.
func (a *app) deleteRecords(ctx context.Context, admin *kadm.Client, offsets kadm.Offsets) error {
	rs, err := admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	for _, r := range rs.Sorted() {
		if r.Err != nil {
			asked, _ := offsets.Lookup(r.Topic, r.Partition)
			err = fmt.Errorf("%s-%d, before %d: %w", r.Topic, r.Partition, asked.At, r.Err)
			continue
		}
		if err := a.emit(offsetLine{"begins", r.Topic, r.Partition, r.LowWatermark}); err != nil {
			return err
		}
	}
	return err
}
