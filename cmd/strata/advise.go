package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stratalog/strata/topic"
)

func (a *app) topicsAdvise() *cobra.Command {
	var tg target
	var recordBytes, rate float64
	var window time.Duration
	c := &cobra.Command{Use: "advise TOPIC...", Short: "Calculate segment settings from record size and rate", Args: cobra.MinimumNArgs(1),
		Long: "advise measures the record size and the write rate of a topic, and calculates segment.bytes and segment.ms for them and for the topic's\n" +
			"retention. Records expire by whole closed segments, so a segment should close after about a twentieth of the retention. It warns of\n" +
			"settings that do not fit, and changes nothing. A topic without records needs --record-bytes and --rate.",
		Example: "  strata topics advise orders -b localhost:9092\n  strata topics advise orders --record-bytes 500 --rate 2000 --dir data"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		if recordBytes < 0 || rate < 0 || window <= 0 {
			return misuse("--record-bytes and --rate must not be negative, --window must be above 0")
		}
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		loads, err := measure(ctx, c.admin, window, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			l := loads[name]
			if recordBytes > 0 {
				l.RecordBytes = recordBytes
			}
			if rate > 0 {
				l.RecordsPerSecond = rate
			}
			if err := a.advise(ctx, c.admin, name, l); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().Float64Var(&recordBytes, "record-bytes", 0, "mean size of a record in bytes; replaces the measured one")
	c.Flags().Float64Var(&rate, "rate", 0, "records per second in the whole topic; replaces the measured rate")
	c.Flags().DurationVar(&window, "window", time.Hour, "measure the rate over the records of this last period")
	return c
}

// measure returns the load of topics. Record size and rate are 0 for a topic without records.
func measure(ctx context.Context, admin *kadm.Client, window time.Duration, names []string) (map[string]topic.Load, error) {
	topics, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return nil, fmt.Errorf("%s: %w", t.Topic, t.Err)
		}
	}
	now := time.Now()
	starts, err1 := admin.ListStartOffsets(ctx, names...)
	ends, err2 := admin.ListEndOffsets(ctx, names...)
	recent, err3 := admin.ListOffsetsAfterMilli(ctx, now.Add(-window).UnixMilli(), names...)
	dirs, err4 := admin.DescribeAllLogDirs(ctx, topics.TopicsSet())
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	size := map[string]map[int32]int64{} // of the largest replica: the others may be behind
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if size[p.Topic] == nil {
				size[p.Topic] = map[int32]int64{}
			}
			size[p.Topic][p.Partition] = max(size[p.Topic][p.Partition], p.Size)
		})
	})
	loads := map[string]topic.Load{}
	for name, t := range topics {
		var bytes, records int64
		l := topic.Load{Partitions: len(t.Partitions)}
		for p := range t.Partitions {
			start, _ := starts.Lookup(name, p)
			end, _ := ends.Lookup(name, p)
			bytes, records = bytes+size[name][p], records+end.Offset-start.Offset
			if first, ok := recent.Lookup(name, p); ok && first.Err == nil && first.Timestamp >= 0 && first.Offset < end.Offset {
				took := max(now.Sub(time.UnixMilli(first.Timestamp)), time.Second)
				l.RecordsPerSecond += float64(end.Offset-first.Offset) / took.Seconds()
			}
		}
		if records > 0 {
			l.RecordBytes = float64(bytes) / float64(records)
		}
		loads[name] = l
	}
	return loads, nil
}

// segmentKeys are the settings of a topic's retention and of its segments.
var segmentKeys = []string{"cleanup.policy", "retention.ms", "retention.bytes", "segment.ms", "segment.bytes", "internal.segment.bytes", "max.message.bytes"}

func (a *app) advise(ctx context.Context, admin *kadm.Client, name string, l topic.Load) error {
	if l.RecordBytes == 0 || l.RecordsPerSecond == 0 {
		return misuse("%s: too few records to measure: give --record-bytes and --rate, or a longer --window", name)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return err
	}
	rc, err := configs.On(name, nil)
	if err != nil {
		return err
	}
	set := map[string]string{}
	for _, k := range rc.Configs {
		if k.Value != nil && slices.Contains(segmentKeys, k.Key) {
			set[k.Key] = *k.Value
		}
	}
	s, err := topic.Parse(set, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	advice, err := s.Advise(l)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	warnings, err := s.WarningsUnder(l)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line := adviceLine{
		Type: "advice", Topic: name, Partitions: l.Partitions, RecordBytes: l.RecordBytes, Rate: l.RecordsPerSecond,
		Settings: advice.Properties(), ClosesMs: advice.Closes.Milliseconds(), LateMs: advice.Late.Milliseconds(), Segments: advice.Segments,
	}
	for _, w := range warnings {
		line.Warnings = append(line.Warnings, w.Key+"="+w.Value+": "+w.Advice)
	}
	return a.emit(line)
}

type adviceLine struct {
	Type        string            `json:"type"`
	Topic       string            `json:"topic"`
	Partitions  int               `json:"partitions"`
	RecordBytes float64           `json:"recordBytes"`
	Rate        float64           `json:"recordsPerSecond"`
	Settings    map[string]string `json:"settings"`
	ClosesMs    int64             `json:"closesMs"`
	LateMs      int64             `json:"lateMs"`   // 0: records are kept forever
	Segments    int               `json:"segments"` // per partition; 0: the number grows without end
	Warnings    []string          `json:"warnings,omitempty"`
}

func (l adviceLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %.4g records/s of %.4g bytes over %d partitions\n", l.Topic, l.Rate, l.RecordBytes, l.Partitions)
	for _, k := range slices.Sorted(maps.Keys(l.Settings)) {
		fmt.Fprintf(w, "  %s=%s\n", k, l.Settings[k])
	}
	closes := (time.Duration(l.ClosesMs) * time.Millisecond).Round(time.Second)
	if l.Segments > 0 {
		fmt.Fprintf(w, "  a segment closes after %v: %d segments per partition, records are kept up to %v longer than the retention\n", closes, l.Segments, closes)
	} else {
		fmt.Fprintf(w, "  a segment closes after %v; records are kept forever\n", closes)
	}
	for _, warning := range l.Warnings {
		fmt.Fprintf(w, "  at present %s\n", warning)
	}
}
