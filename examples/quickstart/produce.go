package main

import (
	"context"
	"strconv"
	"sync"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// produce sends every line that is not in the log yet. A partition has its lines in order, so the
// number of its last line is enough to know. at is called with the number of each line before it is
// sent.
func produce(ctx context.Context, cluster strata.Client, all lines, at func(n int)) (sent int, err error) {
	last, err := lastLines(ctx, cluster)
	if err != nil {
		return 0, err
	}
	// acks=all, idempotent, durable: the zero value is the safest
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	var mu sync.Mutex // guards failed
	var failed error
	partitioner := topic.Hash()
	err = all(func(n int, line []byte) bool {
		at(n)
		r := record.Record{
			Topic: topicName, Key: key(line), Value: line,
			Headers: []record.Header{{Key: "line", Value: strconv.AppendInt(nil, int64(n), 10)}},
		}
		if n <= last[partitioner.Partition(r, partitions)] {
			return true // in the log already
		}
		sent++
		p.SendAsync(ctx, r.Clone(), func(_ record.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
			}
		})
		return ctx.Err() == nil
	})
	if err != nil {
		return sent, err
	}
	if err := p.Flush(ctx); err != nil {
		return sent, err
	}
	mu.Lock()
	defer mu.Unlock()
	return sent, failed
}

// lastLines reads the last record of each partition and
// returns its line number, 0 for an empty one.
func lastLines(ctx context.Context, cluster strata.Client) (map[int]int, error) {
	ends, err := cluster.Offsets(ctx, topicName, strata.Latest)
	if err != nil {
		return nil, err
	}
	for tp, end := range ends {
		ends[tp] = max(end-1, 0)
	}
	last := map[int]int{}
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: topicName, Start: ends}) {
		if err != nil {
			return nil, err
		}
		line, _ := r.Header("line")
		if last[int(r.Partition)], err = strconv.Atoi(string(line)); err != nil {
			return nil, err
		}
	}
	return last, nil
}
