package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func init() {
	ops["transactions"] = opTransactions
	workloads["W15"] = func(c *config, sel []entry) { // transactions of a hundred records over the wire
		sel = slices.DeleteFunc(slices.Clone(sel), func(e entry) bool { return e.broker == nil || e.name == "limit-wire" })
		for _, producers := range []int{1, 16} {
			c.measure("W15", fmt.Sprintf("transactions 100 x 100B, %d producers", producers), sel, func(e entry, dir string) Result {
				return spawn(Job{Op: "transactions", Subject: e.name, Dir: dir, Size: 100, Batch: 100, Writers: producers, MaxTime: c.maxTime})
			})
		}
	}
}

// warmTransactions is the number of transactions of each producer before the measurement, in which
// the JVM compiles.
const warmTransactions = 300

// opTransactions runs producers, each with its own transactional id and connection. Each writes and
// commits transactions of j.Batch records, one after the other. P50, P99 and P999 are times of
// whole transactions.
func opTransactions(j Job) (Result, error) {
	addrs, err := lookup(j.Subject).broker().Start(j.Dir)
	if err != nil {
		return Result{}, err
	}
	value := payloads(j.Size, 1)()[0]
	clients := make([]*kgo.Client, j.Writers)
	for i := range clients {
		if clients[i], err = kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.DefaultProduceTopic("bench"), kgo.TransactionalID(fmt.Sprint("bench-", i)),
			kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
			return Result{}, err
		}
		defer clients[i].Close()
	}
	err = eachClient(clients, func(_ int, cl *kgo.Client) (err error) {
		for n := 0; n < warmTransactions && err == nil; n++ {
			err = transact(cl, value, j.Batch)
		}
		return err
	})
	if err != nil {
		return Result{}, err
	}
	var n atomic.Int64
	lat := make([][]time.Duration, len(clients))
	m := startMeter()
	stop := time.Now().Add(j.MaxTime)
	err = eachClient(clients, func(i int, cl *kgo.Client) error {
		for time.Now().Before(stop) {
			t := time.Now()
			if err := transact(cl, value, j.Batch); err != nil {
				return err
			}
			lat[i] = append(lat[i], time.Since(t))
			n.Add(int64(j.Batch))
		}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	r := m.stop(n.Load(), n.Load()*int64(j.Size))
	all := slices.Concat(lat...)
	slices.Sort(all)
	us := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1e3 }
	r.P50, r.P99, r.P999 = us(.5), us(.99), us(.999)
	return r, nil
}

// transact writes and commits one transaction.
func transact(cl *kgo.Client, value []byte, records int) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	for range records {
		cl.Produce(bg, &kgo.Record{Value: value}, nil)
	}
	if err := cl.Flush(bg); err != nil {
		return err
	}
	return cl.EndTransaction(bg, kgo.TryCommit)
}

// eachClient runs do for all clients concurrently, and returns the first error in the order of
// clients.
func eachClient(clients []*kgo.Client, do func(i int, cl *kgo.Client) error) error {
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, cl := range clients {
		wg.Go(func() { errs[i] = do(i, cl) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}
