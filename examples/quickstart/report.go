package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
)

// report shows the position of the group, and the files on disk after the cluster is closed. Before
// that, files have preallocated space.
func report(ctx context.Context, cluster strata.Client, at place, out io.Writer) error {
	ends, err := cluster.Offsets(ctx, topicName, strata.Latest)
	if err != nil {
		return err
	}
	committed, err := cluster.FetchOffsets(ctx, groupName, nil)
	if err != nil {
		return err
	}
	if err := cluster.Close(); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "partition\tend offset\tcommitted\tlag\tsegments\tbytes\t")
	for p := range int32(partitions) {
		tp := record.TopicPartition{Topic: topicName, Partition: p}
		files, err := filepath.Glob(filepath.Join(at.logDir(), "broker-*", fmt.Sprintf("%s-%d", topicName, p), "*.log"))
		if err != nil {
			return err
		}
		var bytes int64
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				return err
			}
			bytes += info.Size()
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t\n", p, ends[tp], committed[tp].Offset, ends[tp]-committed[tp].Offset, len(files), bytes)
	}
	return w.Flush()
}

// compare prints the largest totals and fails if any differs from the plain scan.
func compare(want, got map[string]int, out io.Writer) error {
	keys := slices.SortedFunc(maps.Keys(got), func(a, b string) int { return cmp.Or(cmp.Compare(got[b], got[a]), cmp.Compare(a, b)) })
	fmt.Fprintf(out, "\n%d keys, the most frequent:", len(keys))
	for _, k := range keys[:min(8, len(keys))] {
		fmt.Fprintf(out, "  %s %d", k, got[k])
	}
	fmt.Fprintln(out)
	if !maps.Equal(want, got) {
		return errors.New("the totals differ from a plain scan of the file")
	}
	fmt.Fprintln(out, "totals equal a plain scan of the file: nothing lost, nothing counted twice")
	return nil
}
