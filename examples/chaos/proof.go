package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A writer writes 0, 1, 2 and so on until it is stopped, each after the result of the previous one.
type writer struct {
	stop    chan struct{}
	acked   []string
	longest time.Duration
}

func (w *writer) run(ctx context.Context, cluster *strata.Cluster) error {
	p, err := producer.New(cluster, producer.Config{}) // acks=all, idempotent
	if err != nil {
		return err
	}
	defer p.Close()
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return nil
		default:
		}
		begin, value := time.Now(), strconv.Itoa(i)
		if _, err := p.Send(ctx, record.String("orders", "", value)); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		w.acked = append(w.acked, value)
		w.longest = max(w.longest, time.Since(begin))
	}
}

func readAll(ctx context.Context, cluster *strata.Cluster) (values []string, err error) {
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: "orders"}) {
		if err != nil {
			return nil, err
		}
		values = append(values, string(r.Value))
	}
	return values, nil
}

// prove compares the acknowledged records with the read records, and with the files of each broker.
func prove(out io.Writer, w *writer, read []string, fsys vfs.FS) error {
	if err := same("acknowledged records and read records", w.acked, read); err != nil {
		return err
	}
	fmt.Fprintf(out, "A consumer reads all %d, once and in order.\n", len(read))
	for broker := 1; broker <= 3; broker++ {
		place := path.Join(dir, fmt.Sprintf("broker-%d", broker), "orders-0")
		l, err := log.OpenReadOnly(place, log.Config{FS: fsys})
		if err != nil {
			return err
		}
		var have []string
		for r, err := range l.Records(l.StartOffset()) {
			if err != nil {
				return err
			}
			have = append(have, string(r.Value))
		}
		if err := l.Close(); err != nil {
			return err
		}
		if err := same(fmt.Sprintf("read records and the files of broker %d", broker), read, have); err != nil {
			return err
		}
		fmt.Fprintf(out, "The files of broker %d hold the same %d.\n", broker, len(have))
	}
	return nil
}

// same returns an error with the first difference of two sequences.
func same(what string, a, b []string) error {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Errorf("%s differ at record %d of %d and %d", what, i, len(a), len(b))
		}
	}
	return nil
}
