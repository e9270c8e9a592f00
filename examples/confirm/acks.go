package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

const (
	sends = 25                    // of one record each
	every = 20 * time.Millisecond // long enough for the disk to be idle again
)

// acknowledgements sends the same records with each kind of acknowledgement. It prints the time of
// a send, its result, and the result if the broker rejects the write.
func acknowledgements(ctx context.Context, cluster strata.Client, out io.Writer) error {
	fmt.Fprintf(out, "A courier's coordinates, one every %v, %d with each kind of acknowledgement; then one that the broker rejects:\n", every, sends)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  acks\tmedian\tthe caller gets\tfor the rejected one")
	for _, way := range []struct {
		name string
		acks record.Acks
	}{{"none", record.AcksNone}, {"leader", record.AcksLeader}, {"all", record.AcksAll}} {
		median, known, refused, err := sendWith(ctx, cluster, way.acks)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", way.name, micros(median), known, refused)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	event := "on stable storage"
	if at.Elsewhere() {
		event = "in the leader's log" // Kafka does not sync each write
	}
	_, err := fmt.Fprintln(out, "Without an acknowledgement a send does not wait for the disk, and a lost record is not noticed. With one replica, leader and\n"+
		"all wait for the same event: the record is "+event+".")
	return err
}

// sendWith returns the median time of a send, the content of its Ack, and the result of a record
// that the broker rejects.
func sendWith(ctx context.Context, cluster strata.Client, acks record.Acks) (median time.Duration, known, refused string, err error) {
	err = withProducer(cluster, producer.Config{Acks: acks}, func(p *producer.Producer) error {
		var took []time.Duration
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := range sends {
			<-tick.C
			start := time.Now()
			done, err := p.Send(ctx, record.String(at.Name("coordinates"), "courier-7", fmt.Sprintf("52.%05d,13.4", i)))
			if err != nil {
				return err
			}
			took = append(took, time.Since(start))
			known = "no offset"
			if done[0].Offset >= 0 {
				known = "its offset"
			}
		}
		slices.Sort(took)
		median = took[len(took)/2]
		return nil
	})
	if err != nil {
		return 0, "", "", err
	}
	refusing := &unreliable{Backend: cluster, refuse: true}
	err = withProducer(refusing, producer.Config{Acks: acks}, func(p *producer.Producer) error {
		refused = "nothing"
		if _, err := p.Send(ctx, record.String(at.Name("coordinates"), "courier-7", "52.5,13.4")); err != nil {
			refused = "an error"
		}
		return nil
	})
	return median, known, refused, err
}
