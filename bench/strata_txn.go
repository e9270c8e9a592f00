package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Sizes of the workload about transactions.
const (
	txnRecords    = 1000 // W14: per transaction
	txnPartitions = 3
	txns          = 1000
)

// txnKind is a variant of the workload about transactions.
type txnKind struct{ memory, transactional bool }

func init() {
	const note = "idempotent producer, acks=all, SyncOnAck; plain: a Flush instead of a Commit"
	register(entry{name: "strata-txn", txn: &txnKind{transactional: true}, note: note})
	register(entry{name: "strata-txn-plain", txn: &txnKind{}, note: note})
	register(entry{name: "strata-txn-memory", txn: &txnKind{memory: true, transactional: true}, note: note})
	register(entry{name: "strata-txn-memory-plain", txn: &txnKind{memory: true}, note: note})
	workloads["W14"] = func(c *config, sel []entry) {
		c.measure("W14", fmt.Sprintf("%d records x 100 B over %d partitions in a transaction", txnRecords, txnPartitions), family(sel, func(e entry) bool { return e.txn != nil }), func(e entry, dir string) Result {
			return spawn(Job{Op: "txn", Subject: e.name, Dir: dir, Size: 100})
		})
	}
	ops["txn"] = opTxn
}

// opTxn sends transactions one after the other. P50 and P99 are the times of Commit, or of Flush
// without transactions.
func opTxn(j Job) (Result, error) {
	k := lookup(j.Subject).txn
	cfg := strata.Config{Dir: j.Dir}
	if k.memory {
		cfg.Dir = ""
	}
	c, err := strata.Open(cfg)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	if err := c.CreateTopic(bg, benchTopic, topic.Config{Partitions: txnPartitions}); err != nil {
		return Result{}, err
	}
	var producing producer.Config
	if k.transactional {
		producing.TransactionalID = "bench"
	}
	p, err := producer.New(c, producing)
	if err != nil {
		return Result{}, err
	}
	defer p.Close()
	value := payloads(j.Size, 1)()[0]
	rs := make([]record.Record, txnRecords)
	for i := range rs {
		rs[i] = record.Record{Topic: benchTopic, Value: value}.To(int32(i % txnPartitions))
	}
	n, begin := txns, time.Now()
	if !k.memory {
		n /= 10
	}
	var took []time.Duration
	for range n {
		d, err := sendTogether(p, rs, k.transactional)
		if err != nil {
			return Result{}, err
		}
		took = append(took, d)
	}
	elapsed := time.Since(begin)
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) }
	return Result{Records: int64(n * txnRecords), RecsPerS: float64(n*txnRecords) / elapsed.Seconds(), P50: at(.5), P99: at(.99)}, nil
}

// sendTogether sends rs and returns the time of the Commit, or of the Flush without a transaction.
func sendTogether(p *producer.Producer, rs []record.Record, transactional bool) (time.Duration, error) {
	if !transactional {
		p.SendAllAsync(bg, rs, nil)
		begin := time.Now()
		err := p.Flush(bg)
		return time.Since(begin), err
	}
	tx, err := p.Begin(bg)
	if err != nil {
		return 0, err
	}
	if err := tx.Send(bg, rs...); err != nil {
		return 0, err
	}
	begin := time.Now()
	err = tx.Commit(bg)
	return time.Since(begin), err
}
