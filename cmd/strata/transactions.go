package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) transactionsCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "transactions", Short: "List and describe transactions, find and abort hanging ones"})
	c.AddCommand(a.transactionsList(), a.transactionsDescribe(), a.transactionsFindHanging(), a.transactionsAbort())
	return c
}

type txnLine struct {
	Type       string   `json:"type"`
	ID         string   `json:"transactionalId"`
	State      string   `json:"state"`
	ProducerID int64    `json:"producerId"`
	Epoch      *int16   `json:"producerEpoch,omitempty"`
	TimeoutMs  int32    `json:"timeoutMs,omitempty"`
	Started    string   `json:"started,omitempty"`
	Partitions []string `json:"partitions,omitempty"`
}

func (l txnLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, producer %d", l.ID, l.State, l.ProducerID)
	if l.Epoch != nil {
		fmt.Fprintf(w, " epoch %d, timeout %v", *l.Epoch, time.Duration(l.TimeoutMs)*time.Millisecond)
	}
	if l.Started != "" {
		fmt.Fprintf(w, ", since %s", l.Started)
	}
	if len(l.Partitions) > 0 {
		fmt.Fprintf(w, ": %s", strings.Join(l.Partitions, " "))
	}
	fmt.Fprintln(w)
}

func (a *app) transactionsList() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "list", Short: "List transactional ids", Args: cobra.NoArgs,
		Long:    "list prints every transactional id with its state and its producer.",
		Example: "  strata transactions list -b localhost:9092\n  strata transactions list --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		all, err := c.admin.ListTransactions(ctx, nil, nil)
		if err != nil {
			return err
		}
		for _, t := range all.Sorted() {
			if err := a.emit(txnLine{Type: "transaction", ID: t.TxnID, State: t.State, ProducerID: t.ProducerID}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}

func (a *app) transactionsDescribe() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "describe ID...", Short: "Show the transactions of transactional ids", Args: cobra.MinimumNArgs(1),
		Long:    "describe prints each transactional id with its producer, its timeout, and the partitions of its transaction.",
		Example: "  strata transactions describe billing -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, ids []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		described, err := c.admin.DescribeTransactions(ctx, ids...)
		if err != nil {
			return err
		}
		for _, d := range described.Sorted() {
			if errors.Is(d.Err, kerr.TransactionalIDNotFound) {
				return fmt.Errorf("%s: no such transactional id", d.TxnID)
			}
			if d.Err != nil {
				return fmt.Errorf("%s: %w", d.TxnID, d.Err)
			}
			l := txnLine{Type: "described", ID: d.TxnID, State: d.State, ProducerID: d.ProducerID, Epoch: &d.ProducerEpoch, TimeoutMs: d.TimeoutMillis}
			if d.StartTimestamp >= 0 {
				l.Started = timeText(d.StartTimestamp)
			}
			for _, t := range d.Topics.Sorted() {
				for _, p := range t.Partitions {
					l.Partitions = append(l.Partitions, fmt.Sprintf("%s-%d", t.Topic, p))
				}
			}
			if err := a.emit(l); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	return c
}

type hangingLine struct {
	Type        string `json:"type"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	ProducerID  int64  `json:"producerId"`
	Epoch       int16  `json:"producerEpoch"`
	StartOffset int64  `json:"startOffset"`
	LastWrite   string `json:"lastWrite"` // timestamp of its last record
}

func (l hangingLine) writeText(w io.Writer) {
	if l.Type == "aborted" {
		fmt.Fprint(w, "aborted ")
	}
	fmt.Fprintf(w, "%s-%d: producer %d epoch %d, open from offset %d, last written %s\n", l.Topic, l.Partition, l.ProducerID, l.Epoch, l.StartOffset, l.LastWrite)
}

func hanging(kind string, p kadm.DescribedProducer) hangingLine {
	return hangingLine{kind, p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch, p.CurrentTxnStartOffset, timeText(p.LastTimestamp)}
}

func (a *app) transactionsFindHanging() *cobra.Command {
	var tg target
	var topics []string
	var longer time.Duration
	c := &cobra.Command{Use: "find-hanging", Short: "Find open transactions that no coordinator will end", Args: cobra.NoArgs,
		Long: "find-hanging prints transactions that are open in a partition, have no record with a timestamp within the last --max-timeout, and are not\n" +
			"known to any transaction coordinator. Consumers with isolation.level=read_committed stop at such a transaction.",
		Example: "  strata transactions find-hanging -b localhost:9092\n  strata transactions find-hanging --topic orders --max-timeout 1h --dir data"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		if longer < 0 {
			return misuse("--max-timeout %s: must be at least 0", longer)
		}
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		found, err := findHanging(ctx, c.admin, topics, longer)
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := a.emit(hanging("hanging", p)); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringSliceVar(&topics, "topic", nil, "topic, several with commas (default all)")
	c.Flags().DurationVar(&longer, "max-timeout", 15*time.Minute, "transaction.max.timeout.ms of the brokers")
	return c
}

// findHanging queries the partitions, then the coordinators, then the partitions again: a
// transaction that ended in between belonged to a coordinator.
func findHanging(ctx context.Context, admin *kadm.Client, topics []string, longer time.Duration) (found []kadm.DescribedProducer, err error) {
	open, err := openLonger(ctx, admin, topics, longer)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	var producers []int64
	for _, p := range open {
		producers = append(producers, p.ProducerID)
	}
	known, err := admin.ListTransactions(ctx, producers, []string{"Ongoing", "PrepareCommit", "PrepareAbort"})
	if err != nil {
		return nil, err
	}
	described := kadm.DescribedTransactions{}
	if len(known) > 0 { // an empty list would mean all
		if described, err = admin.DescribeTransactions(ctx, known.TransactionalIDs()...); err != nil {
			return nil, err
		}
	}
	still, err := openLonger(ctx, admin, topics, longer)
	if err != nil {
		return nil, err
	}
	for _, p := range open {
		owned := false
		for _, d := range described {
			if d.Err != nil {
				return nil, fmt.Errorf("%s: %w", d.TxnID, d.Err)
			}
			owned = owned || d.ProducerID == p.ProducerID && d.Topics.Lookup(p.Topic, p.Partition)
		}
		if !owned && slices.ContainsFunc(still, func(s kadm.DescribedProducer) bool {
			return s.Topic == p.Topic && s.Partition == p.Partition && s.ProducerID == p.ProducerID && s.CurrentTxnStartOffset == p.CurrentTxnStartOffset
		}) {
			found = append(found, p)
		}
	}
	return found, nil
}

// openLonger returns the open transactions of partitions whose last record is older than longer.
func openLonger(ctx context.Context, admin *kadm.Client, topics []string, longer time.Duration) (open []kadm.DescribedProducer, err error) {
	listed, err := admin.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, err
	}
	for _, t := range listed.Sorted() {
		if t.Err != nil {
			return nil, fmt.Errorf("%s: %w", t.Topic, t.Err)
		}
	}
	described, err := admin.DescribeProducers(ctx, listed.TopicsSet())
	if err != nil {
		return nil, err
	}
	before := time.Now().Add(-longer).UnixMilli()
	for _, t := range described.SortedPartitions() {
		if t.Err != nil {
			return nil, fmt.Errorf("%s-%d: %w", t.Topic, t.Partition, t.Err)
		}
		for _, p := range t.ActiveProducers.Sorted() {
			if p.CurrentTxnStartOffset >= 0 && p.LastTimestamp < before {
				open = append(open, p)
			}
		}
	}
	return open, nil
}

func (a *app) transactionsAbort() *cobra.Command {
	var tg target
	var topic string
	var partition int32
	var start int64
	var longer time.Duration
	c := &cobra.Command{Use: "abort", Short: "Abort a hanging transaction", Args: cobra.NoArgs,
		Long: "abort ends a hanging transaction, one that find-hanging prints, in one partition. It writes an abort marker with the producer's epoch. For\n" +
			"any other transaction it returns an error: the coordinator ends it.",
		Example: "  strata transactions abort --topic orders --partition 0 --start-offset 4711 -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		if longer < 0 || partition < 0 || start < 0 {
			return misuse("--max-timeout, --partition and --start-offset must be at least 0")
		}
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		found, err := findHanging(ctx, c.admin, []string{topic}, longer)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found, func(p kadm.DescribedProducer) bool {
			return p.Partition == partition && p.CurrentTxnStartOffset == start
		})
		if i < 0 {
			return fmt.Errorf("%s-%d: no hanging transaction begins at offset %d", topic, partition, start)
		}
		if err := abortHanging(ctx, c, found[i]); err != nil {
			return fmt.Errorf("%s-%d: %w", topic, partition, err)
		}
		return a.emit(hanging("aborted", found[i]))
	})
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&topic, "topic", "", "topic")
	f.Int32Var(&partition, "partition", 0, "partition")
	f.Int64Var(&start, "start-offset", 0, "first offset of the transaction")
	f.DurationVar(&longer, "max-timeout", 15*time.Minute, "transaction.max.timeout.ms of the brokers")
	for _, name := range []string{"topic", "partition", "start-offset"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

// abortHanging requests the abort marker from the partition's leader.
func abortHanging(ctx context.Context, c *conn, p kadm.DescribedProducer) error {
	client, err := c.newClient()
	if err != nil {
		return err
	}
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = p.Topic, []int32{p.Partition}
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch = p.ProducerID, p.ProducerEpoch, max(p.CoordinatorEpoch, 0)
	m.Topics = append(m.Topics, t)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, m)
	resp, err := client.Broker(int(p.Leader)).Request(ctx, req)
	if err != nil {
		return err
	}
	for _, m := range resp.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
