package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/group"
)

type topOptions struct {
	interval time.Duration
	count    int
	rows     int
	rowsSet  bool
}

func (a *app) topCmd() *cobra.Command {
	var tg target
	var o topOptions
	c := &cobra.Command{
		Use: "top", Short: "Watch rates and lag of topics and groups", Args: cobra.NoArgs,
		Long: "top measures all topics, consumer groups and share groups every --interval, and prints rates since the previous measurement. For each topic it\n" +
			"prints the offsets written per second, busiest topic first. For each group it prints the lag, the offsets done per second, and, if the lag\n" +
			"shrinks, the time until it is 0; the group furthest behind comes first. Transaction markers and compacted records count as offsets.\n" +
			"On a terminal each page overwrites the previous one; otherwise, and with --json, the output is lines.\n\n" +
			"The first page appears after the first interval. It reports on standard error when a broker becomes unreachable and when it is back, and the\n" +
			"first of several failed measurements. It ends when it is interrupted, or after --count pages.",
		Example: "  strata top -b localhost:9092\n  strata top --interval 10s --count 1 --json -b localhost:9092",
	}
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		o.rowsSet = c.Flags().Changed("rows")
		if o.interval <= 0 || o.count < 0 || o.rows < 0 {
			return misuse("--interval must be above 0, --count and --rows must be at least 0")
		}
		return nil
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		client, err := c.newClient(kgo.WithHooks(&comings{say: a.say}))
		if err != nil {
			return err
		}
		ask := newAsker(client)
		return a.top(ctx, o, func(ctx context.Context) (*look, error) { return tg.lookAtAll(ctx, ask) })
	})
	tg.flags(c)
	f := c.Flags()
	f.DurationVar(&o.interval, "interval", 2*time.Second, "time between two measurements")
	f.IntVar(&o.count, "count", 0, "end after this many pages; 0: run until interrupted")
	f.IntVar(&o.rows, "rows", pageRows, "largest number of topics, and of groups, per page; 0: all, the default without a terminal")
	return c
}

// pageRows is the default of --rows on a terminal.
const pageRows = 15

func (a *app) top(ctx context.Context, o topOptions, lookAround func(context.Context) (*look, error)) error {
	page := isTerminal(a.out) && !a.json
	if !page && !o.rowsSet {
		o.rows = 0
	}
	before, err := lookAround(ctx)
	if err != nil {
		return err
	}
	failing := false
	for n := 0; o.count == 0 || n < o.count; {
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return nil
		}
		now, err := lookAround(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				a.say("%v; trying again", named(err, nil))
			}
			failing = true
			continue
		}
		failing = false
		if err := a.frame(now.since(before), o, page); err != nil {
			return err
		}
		before, n = now, n+1
	}
	return nil
}

// A look is one measurement of all topics and groups.
type look struct {
	at     time.Time
	topics map[string]map[int32][2]int64 // start and end offset of each partition with known offsets
	errs   map[string]string             // the error of one of a topic's other partitions
	groups []groupPart
}

// groupPart is one measurement of a group of any kind.
type groupPart struct {
	topGroupLine
	done map[partitionOf]int64 // offset before which all is done
}

func (tg *target) lookAtAll(ctx context.Context, ask asker) (*look, error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	l := &look{at: time.Now(), topics: map[string]map[int32][2]int64{}, errs: map[string]string{}}
	topics, err := ask.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	if names := topics.Names(); len(names) > 0 {
		starts, err := ask.admin.ListStartOffsets(ctx, names...)
		if err != nil {
			return nil, err
		}
		ends, err := ask.admin.ListEndOffsets(ctx, names...)
		if err != nil {
			return nil, err
		}
		l.addTopics(topics, starts, ends)
	}
	groups, err := lookAtGroups(ctx, ask)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		l.addGroup(g)
	}
	return l, l.addShares(ctx, ask.admin)
}

func (l *look) addTopics(topics kadm.TopicDetails, starts, ends kadm.ListedOffsets) {
	for _, t := range topics.Sorted() {
		parts := map[int32][2]int64{}
		for _, p := range t.Partitions.Sorted() {
			start, _ := starts.Lookup(t.Topic, p.Partition)
			end, ok := ends.Lookup(t.Topic, p.Partition)
			err := cmp.Or(p.Err, start.Err, end.Err)
			if err == nil && ok {
				parts[p.Partition] = [2]int64{start.Offset, end.Offset}
			} else if err != nil && l.errs[t.Topic] == "" {
				l.errs[t.Topic] = fmt.Sprintf("%d: %v", p.Partition, err)
			}
		}
		l.topics[t.Topic] = parts
	}
}

func (l *look) addGroup(g groupSeen) {
	line := topGroupLine{Type: "group", Group: g.Group, State: g.State, Members: g.Members, Lag: g.Lag}
	if err := g.lagError(); err != nil {
		line.Error = err.Error()
	}
	part := groupPart{line, map[partitionOf]int64{}}
	for _, p := range g.parts {
		if p.err == nil && p.Committed >= 0 {
			part.done[partitionOf{p.Topic, p.Partition}] = p.Committed
		}
	}
	l.groups = append(l.groups, part)
}

// addShares adds share groups, if the brokers have some.
func (l *look) addShares(ctx context.Context, admin *kadm.Client) error {
	listed, err := admin.ListGroupsByType(ctx, []string{"share"})
	if err != nil {
		return err
	}
	var names []string
	for _, g := range listed.Sorted() {
		if g.ProtocolType == "share" { // brokers without group types list all groups
			names = append(names, g.Group)
		}
	}
	if len(names) == 0 {
		return nil
	}
	described, err := admin.DescribeShareGroups(ctx, slices.Clone(names)...)
	if err != nil {
		return err
	}
	starts, err := admin.DescribeShareGroupOffsets(ctx, names...)
	if err != nil {
		return err
	}
	for _, d := range described.Sorted() {
		part := groupPart{topGroupLine{Type: "group", Group: d.GroupID, State: d.GroupState, Share: true, Members: len(d.Members)}, map[partitionOf]int64{}}
		err := cmp.Or(d.Err, starts[d.GroupID].Err)
		for _, o := range starts[d.GroupID].Offsets.Sorted() {
			if err == nil && o.Err != nil {
				err = fmt.Errorf("%s-%d: %w", o.Topic, o.Partition, o.Err)
			}
			if o.Err == nil && o.Lag >= 0 {
				part.Lag += o.Lag
				// Records done beyond the start offset count too: end minus lag.
				if offsets, ok := l.topics[o.Topic][o.Partition]; ok {
					part.done[partitionOf{o.Topic, o.Partition}] = offsets[1] - o.Lag
				}
			}
		}
		if err != nil {
			part.Error = err.Error()
		}
		l.groups = append(l.groups, part)
	}
	return nil
}

// A frame is one page of output.
type frame struct {
	at     time.Time
	topics []topTopicLine
	groups []topGroupLine
}

// since returns the page for l, with rates since an earlier look. Busy topics and groups with a
// large lag come first. A topic, partition or group that is not in before has no rate yet.
func (l *look) since(before *look) frame {
	f := frame{at: l.at}
	elapsed := l.at.Sub(before.at).Seconds()
	for name, parts := range l.topics {
		line := topTopicLine{Type: "topic", Time: timeText(l.at.UnixMilli()), Topic: name, Partitions: len(parts), Error: l.errs[name]}
		var added int64
		for p, now := range parts {
			line.Offsets += now[1] - now[0]
			if was, ok := before.topics[name][p]; ok {
				added += max(0, now[1]-was[1]) // below 0: the topic was created again
			}
		}
		if _, ok := before.topics[name]; ok {
			line.Rate = rate(added, elapsed)
		}
		f.topics = append(f.topics, line)
	}
	earlier := map[string]groupPart{}
	for _, g := range before.groups {
		earlier[g.Group] = g
	}
	for _, g := range l.groups {
		line := g.topGroupLine
		line.Time = timeText(l.at.UnixMilli())
		if was, ok := earlier[g.Group]; ok && was.Share == g.Share {
			var done int64
			for at, now := range g.done {
				if before, ok := was.done[at]; ok {
					done += now - before
				}
			}
			line.Rate = rate(done, elapsed)
			if d := group.DrainTime(g.Lag, was.Lag, l.at.Sub(before.at)); d > 0 { // 0 or below: never, or unknown
				line.Drain = d.Round(time.Second).String()
			}
		}
		f.groups = append(f.groups, line)
	}
	slices.SortFunc(f.topics, func(a, b topTopicLine) int {
		return cmp.Or(cmp.Compare(value(b.Rate), value(a.Rate)), cmp.Compare(a.Topic, b.Topic))
	})
	slices.SortFunc(f.groups, func(a, b topGroupLine) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Group, b.Group))
	})
	return f
}

func rate(n int64, seconds float64) *float64 {
	r := math.Round(10*float64(n)/max(seconds, 1e-3)) / 10
	return &r
}

func value(r *float64) float64 {
	if r == nil {
		return 0
	}
	return *r
}

func rateText(r *float64) string {
	if r == nil {
		return "-"
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}

type topTopicLine struct {
	Type       string   `json:"type"`
	Time       string   `json:"time"`
	Topic      string   `json:"topic"`
	Partitions int      `json:"partitions"`    // with known offsets
	Offsets    int64    `json:"offsets"`       // from the first to the last offset; compacted records included
	Rate       *float64 `json:"offsetsPerSec"` // null: unknown yet
	Error      string   `json:"error,omitempty"`
}

func (l topTopicLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s topic %s: %s offsets/s, %d offsets in %d partitions%s\n", l.Time, l.Topic, rateText(l.Rate), l.Offsets, l.Partitions, errorText(l.Error))
}

type topGroupLine struct {
	Type    string   `json:"type"`
	Time    string   `json:"time"`
	Group   string   `json:"group"`
	Share   bool     `json:"share"`
	State   string   `json:"state"`
	Members int      `json:"members"`
	Lag     int64    `json:"lag"`
	Rate    *float64 `json:"offsetsPerSec"`   // done by the group; null: unknown yet
	Drain   string   `json:"drain,omitempty"` // time until the lag is 0 at the present rate; empty: unknown, or never
	Error   string   `json:"error,omitempty"`
}

func (l topGroupLine) writeText(w io.Writer) {
	kind := "group"
	if l.Share {
		kind = "share group"
	}
	drain := ""
	if l.Drain != "" {
		drain = ", caught up in " + l.Drain
	}
	fmt.Fprintf(w, "%s %s %s: lag %d, %s offsets/s, %s, %d members%s%s\n", l.Time, kind, l.Group, l.Lag, rateText(l.Rate), l.State, l.Members, drain, errorText(l.Error))
}

func errorText(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

// frame prints f, as a page or as lines.
func (a *app) frame(f frame, o topOptions, page bool) error {
	topics, groups := first(f.topics, o.rows), first(f.groups, o.rows)
	if page {
		f.page(a.w, topics, groups)
		return a.w.Flush()
	}
	for _, t := range topics {
		if err := a.emit(t); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := a.emit(g); err != nil {
			return err
		}
	}
	return a.w.Flush()
}

func first[T any](all []T, n int) []T {
	if n == 0 || n > len(all) {
		return all
	}
	return all[:n]
}

// page overwrites the screen of a terminal.
func (f frame) page(w io.Writer, topics []topTopicLine, groups []topGroupLine) {
	fmt.Fprintf(w, "\x1b[H\x1b[2J%s  topics %d of %d, groups %d of %d\n\n", timeText(f.at.UnixMilli()), len(topics), len(f.topics), len(groups), len(f.groups))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOPIC\tOFFSETS/S\tOFFSETS\tPARTITIONS\t")
	for _, l := range topics {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", printable(l.Topic), rateText(l.Rate), l.Offsets, l.Partitions, printable(l.Error))
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "GROUP\tLAG\tOFFSETS/S\tCAUGHT UP IN\tSTATE\tMEMBERS\t")
	for _, l := range groups {
		state := printable(l.State)
		if l.Share {
			state += " (share)"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%d\t%s\n", printable(l.Group), l.Lag, rateText(l.Rate), cmp.Or(l.Drain, "-"), state, l.Members, printable(l.Error))
	}
	t.Flush()
}
