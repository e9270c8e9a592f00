package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata/kafkadir"
)

func (a *app) importCmd() *cobra.Command {
	var cfg kafkadir.ImportConfig
	c := &cobra.Command{
		Use:   "import --from KAFKA_LOG_DIR --dir DIR",
		Short: "Create a cluster from the log directory of a Kafka broker",
		Long: "import copies the topics of a Kafka broker to DIR, which must not exist or must be empty. The broker must not be running; it may have been\n" +
			"killed. The copy has the records unchanged, transactions, and offsets of groups. From Kafka's metadata, if the directory has it, the copy\n" +
			"has ids, settings, users, access control entries and client quotas. Every batch is checked on the way, and nothing in KAFKA_LOG_DIR is\n" +
			"changed. An interrupted import leaves no DIR; the next import starts from the beginning.\n\n" +
			"Topics without a retention setting of their own get retention.ms=-1, because server.properties is not read. A broker of a larger cluster\n" +
			"has only some partitions: import lists the others as an error, and continues with --allow-missing.",
		Example: "  strata import --from /var/lib/kafka/data --dir data\n" +
			"  strata import --from /disk1/kafka --from /disk2/kafka --dir data --topics orders,payments\n" +
			"  strata serve --dir data",
		Args: cobra.NoArgs,
	}
	c.Flags().StringArrayVar(&cfg.From, "from", nil, "log directory of the broker; repeat it for each of its log.dirs")
	c.Flags().StringVar(&cfg.Dir, "dir", "", "directory to create")
	c.Flags().StringSliceVar(&cfg.Topics, "topics", nil, "topics to import (default all)")
	c.Flags().BoolVar(&cfg.AllowMissing, "allow-missing", false, "continue if partitions are missing")
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		if len(cfg.From) == 0 || cfg.Dir == "" {
			return misuse("import needs --from and --dir")
		}
		if err := a.there(cfg.From...); err != nil {
			return err
		}
		cfg.FS = a.fs
		tell, done := a.progress()
		cfg.OnProgress = copying(tell)
		report, err := kafkadir.Import(ctx, cfg)
		done()
		var incomplete *kafkadir.IncompleteError
		if errors.As(err, &incomplete) {
			return fmt.Errorf("%w; --allow-missing continues without them", err)
		}
		if err != nil {
			return err
		}
		return a.emit(reportLine{"import", strings.Join(cfg.From, ", "), cfg.Dir, report})
	})
	return c
}

func (a *app) exportCmd() *cobra.Command {
	var cfg kafkadir.ExportConfig
	c := &cobra.Command{
		Use:   "export --dir DIR --to KAFKA_LOG_DIR",
		Short: "Create the log directories of Kafka brokers from a cluster",
		Long: "export copies the cluster in DIR to KAFKA_LOG_DIR, which must not exist or must be empty. A broker of Kafka 4 starts on the copy. No process\n" +
			"may have the cluster open. Every batch is checked on the way. An interrupted export leaves no KAFKA_LOG_DIR; the next export starts from the\n" +
			"beginning.\n\n" +
			"The broker's server.properties needs process.roles=broker,controller, node.id=1, controller.quorum.voters=1@HOST:PORT and\n" +
			"log.dirs=KAFKA_LOG_DIR, in addition to its listeners. Do not format the directory.\n\n" +
			"A cluster of several brokers becomes one of Kafka with the same ids, replicas and leaders. KAFKA_LOG_DIR gets a log directory broker-N for each\n" +
			"broker: log.dirs and node.id of that broker. Each broker may have the role of a controller, and all have the same controller.quorum.voters.",
		Example: "  strata export --dir data --to /var/lib/kafka/data",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&cfg.Dir, "dir", "", "directory of the cluster")
	c.Flags().StringVar(&cfg.To, "to", "", "directory to create")
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		if cfg.Dir == "" || cfg.To == "" {
			return misuse("export needs --dir and --to")
		}
		if err := a.there(cfg.Dir); err != nil {
			return err
		}
		cfg.FS = a.fs
		tell, done := a.progress()
		cfg.OnProgress = copying(tell)
		report, err := kafkadir.Export(ctx, cfg)
		done()
		if err != nil {
			return moveError(err)
		}
		return a.emit(reportLine{"export", cfg.Dir, cfg.To, report})
	})
	return c
}

// there rejects directories that do not exist, and files.
func (a *app) there(dirs ...string) error {
	for _, dir := range dirs {
		switch info, err := a.fs.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			return misuse("%s does not exist", dir)
		case err == nil && !info.IsDir():
			return misuse("%s is no directory", dir)
		}
	}
	return nil
}

// moveError returns misuse for the errors of Export and Check about wrong arguments: the directory
// has no cluster, or source and target are inside of each other.
func moveError(err error) error {
	if _, cause, ok := strings.Cut(err.Error(), kafkadir.ErrForeign.Error()+": "); ok && errors.Is(err, kafkadir.ErrForeign) {
		return misuse("%s", cause)
	}
	if errors.Is(err, fs.ErrInvalid) {
		return misuse("%v", err)
	}
	return err
}

// copying returns a callback for kafkadir that shows the progress of a copy.
func copying(tell func(func() string)) func(kafkadir.Progress) {
	return func(p kafkadir.Progress) {
		tell(func() string {
			return fmt.Sprintf("%3d%% of %s  %s", 100*p.Done/max(p.Total, 1), size(p.Total), p.Partition)
		})
	}
}

// reportLine is the result of an import or export.
type reportLine struct {
	kind, from, to string
	report         *kafkadir.Report
}

// MarshalJSON writes the report as one flat object.
func (l reportLine) MarshalJSON() ([]byte, error) {
	r := l.report
	topics := make([]any, 0, len(r.Topics))
	for _, t := range r.Topics {
		topics = append(topics, fields{{"name", t.Name}, {"topicId", t.ID.String()}, {"partitions", t.Partitions}, {"bytes", t.Bytes}, {"retentionOff", t.RetentionOff}})
	}
	missing := make([]any, 0, len(r.Missing))
	for _, m := range r.Missing {
		missing = append(missing, fields{{"topic", m.Topic}, {"partition", m.Partition}, {"reason", m.Reason}})
	}
	cut := make([]any, 0, len(r.Cut))
	for _, c := range r.Cut {
		cut = append(cut, fields{{"topic", c.Topic}, {"partition", c.Partition}, {"offset", c.Offset}, {"bytes", c.Bytes}})
	}
	gaps := make([]any, 0, len(r.Gaps))
	behind := make([]any, 0, len(r.Behind))
	for _, b := range r.Behind {
		behind = append(behind, fields{{"topic", b.Topic}, {"partition", b.Partition}, {"broker", b.Broker}, {"damage", b.Damage}})
	}
	brokers := append([]int32{}, r.Brokers...)
	for _, g := range r.Gaps {
		gaps = append(gaps, fields{{"topic", g.Topic}, {"partition", g.Partition}, {"first", g.First}, {"end", g.End}, {"reason", g.Reason}})
	}
	return marshalFields([]field{
		{"type", l.kind}, {"from", l.from}, {"to", l.to}, {"clusterId", r.ClusterID}, {"broker", r.Broker}, {"clean", r.Clean}, {"metadata", r.Metadata},
		{"bytes", r.Bytes}, {"cloned", r.Cloned}, {"users", r.Users}, {"acls", r.ACLs}, {"quotas", r.Quotas}, {"tokens", r.Tokens}, {"openTransactions", r.OpenTransactions},
		{"nextProducerId", r.NextProducerID}, {"topics", topics}, {"missing", missing}, {"cut", cut}, {"gaps", gaps}, {"brokers", brokers}, {"behind", behind}, {"leftOut", r.LeftOut}, {"skippedRecords", r.Skipped},
	})
}

func (l reportLine) writeText(w io.Writer) {
	r := l.report
	how := "was shut down cleanly"
	if !r.Clean {
		how = "was killed"
	}
	partitions := 0
	var off []string
	for _, t := range r.Topics {
		if partitions += t.Partitions; t.RetentionOff {
			off = append(off, t.Name)
		}
	}
	fmt.Fprintf(w, "%s: %s to %s: %d topics, %d partitions, %s, %d users, %d access control entries, %d client quotas\n", l.kind, l.from, l.to, len(r.Topics), partitions, size(r.Bytes), r.Users, r.ACLs, r.Quotas)
	if l.kind == "import" {
		fmt.Fprintf(w, "broker %d of cluster %s %s\n", r.Broker, r.ClusterID, how)
	}
	if len(r.Brokers) > 1 {
		fmt.Fprintf(w, "%d log directories: %s, each for the broker with that node.id\n", len(r.Brokers), "broker-"+strings.ReplaceAll(brokerList(r.Brokers), ",", ", broker-"))
	}
	if !r.Metadata {
		fmt.Fprintln(w, "no log of Kafka's metadata: topic settings, users and access control entries are not imported")
	}
	if len(off) > 0 {
		fmt.Fprintf(w, "retention is unlimited (retention.ms=-1) until you set it: %s\n", strings.Join(off, ", "))
	}
	if r.OpenTransactions > 0 {
		fmt.Fprintf(w, "open transactions: %d\n", r.OpenTransactions)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "missing: %s-%d: %s\n", m.Topic, m.Partition, m.Reason)
	}
	for _, c := range r.Cut {
		fmt.Fprintf(w, "cut: %s-%d at offset %d: %d bytes of an unfinished batch\n", c.Topic, c.Partition, c.Offset, c.Bytes)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "gap: %s-%d has no offsets %d to %d: %s\n", g.Topic, g.Partition, g.First, g.End-1, g.Reason)
	}
	for _, b := range r.Behind {
		if b.Damage != "" {
			fmt.Fprintf(w, "damaged: %s-%d on broker %d: Kafka copies it from the leader: %s\n", b.Topic, b.Partition, b.Broker, strings.TrimPrefix(b.Damage, "kafkadir: "))
			continue
		}
		fmt.Fprintf(w, "behind: %s-%d on broker %d: Kafka copies it from the leader\n", b.Topic, b.Partition, b.Broker)
	}
	for _, s := range r.LeftOut {
		fmt.Fprintf(w, "omitted: %s\n", s)
	}
	var skipped []string
	for _, kind := range slices.Sorted(maps.Keys(r.Skipped)) {
		skipped = append(skipped, fmt.Sprintf("%s %d", kind, r.Skipped[kind]))
	}
	if len(skipped) > 0 {
		fmt.Fprintf(w, "metadata records that Strata does not keep: %s\n", strings.Join(skipped, ", "))
	}
}
