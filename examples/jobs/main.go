// Command jobs runs a queue of jobs over a topic with one partition. A share group can have more
// workers than partitions, and each job is with one worker at a time. One worker fails while it
// holds jobs, and others get them. One job ends every worker that begins it. It is given up after
// five deliveries, while all other jobs are done.
//
//	go run ./examples/jobs [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

const (
	jobs    = 200
	workers = 6
	poison  = "job 77"
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{Shares: share.Config{LockDuration: 200 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	if err := cluster.CreateTopic(ctx, at.Name("jobs"), topic.Config{Partitions: 1}); err != nil {
		return err
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range jobs {
		if _, err := p.Send(ctx, record.String(at.Name("jobs"), "", fmt.Sprint("job ", i))); err != nil {
			return err
		}
	}
	b := &board{done: map[string]int{}, by: make([]int, workers), left: jobs - 1}
	ctx, b.stop = context.WithCancel(ctx)
	defer b.stop()
	var pool sync.WaitGroup
	errs := make(chan error, workers)
	for id := range workers {
		pool.Go(func() { errs <- work(ctx, cluster, b, id) })
	}
	pool.Wait()
	for range workers {
		if err := <-errs; err != nil {
			return err
		}
	}
	b.tell(w)
	return nil
}

// work runs a worker, and after its failure another one in its place.
func work(ctx context.Context, cluster strata.Client, b *board, id int) error {
	for ctx.Err() == nil {
		s, err := consumer.NewShare(cluster, consumer.ShareConfig{Group: at.Name("workers"), Topics: []string{at.Name("jobs")}, MaxRecords: 8})
		if err != nil {
			return err
		}
		died := false
		for r, err := range s.Records(ctx) {
			switch {
			case err != nil:
				return err
			case string(r.Value) == poison, b.fails(id):
				died = true
				b.died(r)
			default:
				time.Sleep(2 * time.Millisecond) // the job
				b.finished(id, string(r.Value))
			}
			if died {
				break
			}
		}
		// The loop has released the jobs that it did not begin. A process that is killed cannot:
		// its jobs are delivered again when their locks have expired.
		if err := s.Close(); err != nil || !died {
			return err
		}
	}
	return nil
}

// A board collects the results of the workers.
type board struct {
	mu     sync.Mutex
	done   map[string]int // how often each job was done
	by     []int          // jobs done, by worker
	failed bool           // whether the worker of fails has failed
	deaths int
	most   int // deliveries of the job that ends workers
	left   int
	stop   func()
}

// fails reports whether a worker must fail: once, the first worker that has done 30 jobs. Among 6
// workers that do 199 jobs there is one.
func (b *board) fails(id int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed || b.by[id] < 30 {
		return false
	}
	b.failed = true
	return true
}

func (b *board) died(r consumer.ShareRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deaths++
	if string(r.Value) == poison {
		b.most = max(b.most, r.Deliveries)
	}
	b.endLocked()
}

func (b *board) finished(id int, job string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by[id]++
	if b.done[job]++; b.done[job] == 1 {
		b.left--
	}
	b.endLocked()
}

// endLocked ends the workers when all jobs are done and the job that ends workers was given up.
func (b *board) endLocked() {
	if b.left == 0 && b.most == 5 {
		b.stop()
	}
}

func (b *board) tell(w io.Writer) {
	busy, again := 0, 0
	for _, n := range b.by {
		if n > 0 {
			busy++
		}
	}
	for _, n := range b.done {
		again += n - 1
	}
	fmt.Fprint(w, "A share group hands each job to one worker at a time, also within one partition.\n\n")
	fmt.Fprintf(w, "%d jobs in one partition, %d workers: %d of them had work\n", jobs, workers, busy)
	for id, n := range b.by {
		fmt.Fprintf(w, "  worker %d  %-50s %d\n", id, strings.Repeat("#", n/2), n)
	}
	fmt.Fprint(w, "\nA worker fails with jobs in hand. They return to the queue, and other workers do them:\n")
	fmt.Fprintf(w, "%d jobs done, %d of them more than once\n", len(b.done), again)
	fmt.Fprint(w, "\nOne job ends every worker that begins it. It is given up, and the other jobs continue:\n  ")
	for i := range b.most {
		fmt.Fprintf(w, "%d fails -> ", i+1)
	}
	fmt.Fprint(w, "archived\n")
	fmt.Fprintf(w, "%q was delivered %d times, and given up; workers failed %d times\n", poison, b.most, b.deaths)
}
