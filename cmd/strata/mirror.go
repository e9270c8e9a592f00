package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
)

type mirrorOptions struct {
	to            []string
	toConfig      string
	prefix, start string
	drain         bool
	cutover       []string
	cfg           mirror.ForwardConfig
}

func (a *app) mirrorCmd() *cobra.Command {
	var tg target
	var o mirrorOptions
	c := &cobra.Command{
		Use: "mirror TOPIC... --id NAME --to HOST:PORT", Short: "Forward topics to another cluster, each record once", Args: cobra.MinimumNArgs(1),
		Long: "mirror forwards the committed records of topics to another cluster, each exactly once, until it is interrupted. Partition, key, value, headers,\n" +
			"timestamp and order are kept; offsets are not. The source is a running cluster, or the directory of a cluster that no process has open.\n\n" +
			"The position is kept at the target, under the name of --id, so the command can be interrupted, killed and started again. A topic that the\n" +
			"target does not have is created with the partitions and settings of the source. The command fails rather than leave out or repeat a\n" +
			"record: if records expired at the source before they were forwarded, if a topic was deleted and created again, or if the target has\n" +
			"records and no position of this mirror; --start then names the place to begin.\n\n" +
			"Both clusters must answer at the start. When one of them is unreachable later, the command waits and tries again. The login at the target is in the file --to-config.\n\n" +
			"The exit code is 0 after an interrupt, and with --drain when everything is forwarded.",
		Example: "  strata mirror readings --id ship-7 --dir data --to central:9092 --drain\n" +
			"  strata mirror orders payments --id shop-2 -b localhost:9092 --to central:9092 --to-config central.conf --prefix shop-2.",
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error { return a.mirror(ctx, &tg, &o, args) })
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&o.cfg.ID, "id", "", "name of the mirror, the same at each start; two mirrors to one cluster need different names")
	f.StringSliceVar(&o.to, "to", nil, "address of a broker of the target, HOST:PORT; several with commas; default: bootstrap in --to-config")
	f.StringVar(&o.toConfig, "to-config", "", "configuration `file` of the target, as --config is of the source")
	f.BoolVar(&o.drain, "drain", false, "end when everything that the source has at the start is forwarded")
	f.StringSliceVar(&o.cutover, "cutover", nil, "groups to move: --drain, then commit their offsets at the target, for the same records; first stop producers and members")
	f.StringVar(&o.prefix, "prefix", "", "text before the names of the topics at the target")
	f.StringVar(&o.start, "start", "", "where to begin in topics without a position: earliest or latest; default: earliest if the target topic is empty")
	f.IntVar(&o.cfg.RecordsPerSecond, "records-per-second", 0, "average speed; 0: no limit")
	f.IntVar(&o.cfg.BytesPerSecond, "bytes-per-second", 0, "average speed in bytes of keys, values and headers; 0: no limit")
	f.IntVar(&o.cfg.ReplicationFactor, "replication-factor", 0, "replicas of topics that are created; 0: the target's default")
	f.StringVar(&o.cfg.PositionTopic, "position-topic", mirror.DefaultPositionTopic, "topic of the target with the positions of mirrors")
	return c
}

func (a *app) mirror(ctx context.Context, tg *target, o *mirrorOptions, topics []string) (err error) {
	switch {
	case o.cfg.ID == "":
		return misuse("--id NAME is missing: the name of the mirror, the same at each start")
	case len(o.to) == 0 && o.toConfig == "":
		return misuse("--to HOST:PORT is missing")
	case o.start != "" && o.start != "earliest" && o.start != "latest":
		return misuse("--start %q: must be earliest or latest", o.start)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	from, err := a.client(ctx, tg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := a.mirrorTarget(ctx, tg, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	o.cfg.Topics, o.cfg.Logger = topics, slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if o.prefix != "" {
		o.cfg.Rename = func(name string) string { return o.prefix + name }
	}
	if o.cfg.Start, err = mirrorStart(ctx, tg, from, o.start, topics); err != nil {
		return err
	}
	f, err := mirror.NewForward(from, to, o.cfg)
	if err != nil {
		return misuse("%v", err)
	}
	var moved mirror.CutoverResult
	work := f.Run
	switch {
	case len(o.cutover) > 0:
		work = func(ctx context.Context) (err error) {
			moved, err = f.Cutover(ctx, o.cutover...)
			return err
		}
	case o.drain:
		work = f.Drain
	}
	if err := a.forward(ctx, f, work); err != nil {
		return err
	}
	for _, id := range o.cutover {
		if err := a.emitOffsets("cutover", id, moved.Moved[id]); err != nil {
			return err
		}
		if err := a.emitOffsets("not_forwarded", id, moved.NotForwarded[id]); err != nil {
			return err
		}
	}
	st := f.Stats()
	return a.emit(mirrorLine{"mirror", o.cfg.ID, st.Records, st.Bytes, st.Transactions})
}

func (a *app) emitOffsets(kind, group string, offsets record.Offsets) error {
	tps := slices.SortedFunc(maps.Keys(offsets), func(x, y record.TopicPartition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	for _, tp := range tps {
		if err := a.emit(cutoverLine{kind, group, tp.Topic, tp.Partition, offsets[tp]}); err != nil {
			return err
		}
	}
	return nil
}

// forward calls work of f and shows its progress.
func (a *app) forward(ctx context.Context, f *mirror.Forward, work func(context.Context) error) error {
	tell, done := a.progress()
	defer done()
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && ctx.Err() != nil {
				return errors.New("interrupted before everything was forwarded")
			}
			return err
		case <-every.C:
			tell(func() string { return progressOf(f.Stats()) })
		}
	}
}

// progressOf returns the line that shows the progress.
func progressOf(st mirror.Stats) string {
	text := fmt.Sprintf("%d records forwarded", st.Records)
	switch {
	case st.Lag > 0 && st.LagTime > 0:
		text += fmt.Sprintf(", %d to go, the oldest from %s ago", st.Lag, st.LagTime.Round(time.Second))
	case st.Lag > 0:
		text += fmt.Sprintf(", %d to go", st.Lag)
	case st.Lag == 0:
		text += ", nothing to go"
	}
	if st.Connected.IsZero() && st.LastError != nil {
		text += "; trying again"
	}
	return text
}

// client opens a client of tg: of a running cluster, or of a directory.
func (a *app) client(ctx context.Context, tg *target) (strata.Client, error) {
	if err := tg.fill(a.say); err != nil {
		return nil, err
	}
	if tg.timeout <= 0 {
		return nil, misuse("--timeout %s: must be above 0", tg.timeout)
	}
	if tg.dir != "" {
		return a.openDir(tg.dir)
	}
	cfg := remote.Config{Brokers: tg.bootstrap, RequestTimeout: min(max(tg.timeout, 100*time.Millisecond), 15*time.Minute)}
	if tg.login.usesTLS() {
		var err error
		if cfg.TLS, err = tg.login.tlsConfig(); err != nil {
			return nil, err
		}
	}
	mechanism, err := tg.login.sasl()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		cfg.SASL = []sasl.Mechanism{mechanism}
	}
	bounded, cancel := tg.bounded(ctx)
	defer cancel()
	c, err := remote.Open(bounded, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(tg.bootstrap, ", "), err)
	}
	return c, nil
}

// mirrorTarget opens the client of --to and --to-config.
func (a *app) mirrorTarget(ctx context.Context, from *target, o *mirrorOptions) (strata.Client, error) {
	to := target{config: o.toConfig, timeout: from.timeout, fileOnly: true, set: pflag.NewFlagSet("to", pflag.ContinueOnError)}
	to.set.StringSliceVar(&to.bootstrap, "bootstrap", o.to, "")
	to.set.DurationVar(&to.timeout, "timeout", from.timeout, "")
	to.login.flags(to.set)
	if o.toConfig == "" {
		to.config = os.DevNull // not the user's file, which is of the source
	}
	if len(o.to) > 0 {
		to.set.Lookup("bootstrap").Changed = true
	}
	return a.client(ctx, &to)
}

// mirrorStart returns where to begin: nil if start is empty.
func mirrorStart(ctx context.Context, tg *target, from strata.Client, start string, topics []string) (record.Offsets, error) {
	if start == "" {
		return nil, nil
	}
	at := map[string]int64{"earliest": consumer.StartEarliest, "latest": consumer.StartLatest}[start]
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	md, err := from.Metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	starts := record.Offsets{}
	for _, name := range topics {
		if err := md.Topics[name].Err; err != nil {
			return nil, err
		}
		for p := range md.Topics[name].Partitions {
			starts[record.TopicPartition{Topic: name, Partition: int32(p)}] = at
		}
	}
	return starts, nil
}

// A cutoverLine has an offset of a group: at the target, or at the source if it was not moved.
type cutoverLine struct {
	Type      string `json:"type"` // cutover, not_forwarded
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (l cutoverLine) writeText(w io.Writer) {
	if l.Type == "not_forwarded" {
		fmt.Fprintf(w, "%s: %s-%d is not moved from %d: the topic is not forwarded\n", l.Group, l.Topic, l.Partition, l.Offset)
		return
	}
	fmt.Fprintf(w, "%s: %s-%d is at %d\n", l.Group, l.Topic, l.Partition, l.Offset)
}

type mirrorLine struct {
	Type         string `json:"type"`
	ID           string `json:"id"`
	Records      int64  `json:"records"`
	Bytes        int64  `json:"bytes"`
	Transactions int64  `json:"transactions"`
}

func (l mirrorLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %d records forwarded in %d transactions, %d bytes\n", l.ID, l.Records, l.Transactions, l.Bytes)
}
