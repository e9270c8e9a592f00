package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
)

// A witness counts events of the partition, and draws them.
type witness struct {
	elections, shrinks, truncations int
	moments                         []moment
	done                            chan struct{} // closed when the cluster is
}

// A moment is the state of the partition from a time on.
type moment struct {
	at     time.Time
	leader int32 // 0: none
	isr    []int32
}

// watch returns a witness of all events until the cluster is closed.
func watch(ctx context.Context, cluster *strata.Cluster) *witness {
	s := cluster.Status(orders)
	w := &witness{moments: []moment{{time.Now(), s.Leader, s.ISR}}, done: make(chan struct{})}
	events := cluster.Events(ctx)
	go func() {
		defer close(w.done)
		for e := range events {
			w.note(e)
		}
	}()
	return w
}

func (w *witness) note(e replication.Event) {
	if e.Partition != orders {
		return
	}
	last := w.moments[len(w.moments)-1]
	last.at = e.Time
	switch e.Kind {
	case replication.LeaderElected:
		w.elections++
		last.leader = e.Broker
		w.moments = append(w.moments, last)
	case replication.LeaderLost:
		last.leader = 0
		w.moments = append(w.moments, last)
	case replication.ISRShrunk, replication.ISRGrown:
		if e.Kind == replication.ISRShrunk {
			w.shrinks++
		}
		last.isr = e.ISR
		w.moments = append(w.moments, last)
	case replication.LogTruncated:
		w.truncations++
	}
}

// draw shows the role of each broker over time, a character for an equal part of it.
func (w *witness) draw(out io.Writer) {
	const width = 80
	begin := w.moments[0].at
	part := w.moments[len(w.moments)-1].at.Sub(begin)/width + 1
	for broker := int32(1); broker <= 3; broker++ {
		var line strings.Builder
		for i := range width {
			until := begin.Add(time.Duration(i+1) * part)
			m := w.moments[0]
			for _, next := range w.moments {
				if !next.at.After(until) {
					m = next
				}
			}
			switch {
			case broker == m.leader:
				line.WriteByte('L')
			case slices.Contains(m.isr, broker):
				line.WriteByte('#')
			default:
				line.WriteByte('.')
			}
		}
		fmt.Fprintf(out, "  broker %d  %s\n", broker, line.String())
	}
	fmt.Fprintf(out, "  (L leads, # is in sync, . is not in sync; a character is %d ms)\n", part.Milliseconds())
}

// report prints the counts and the drawing after the cluster is closed.
func (w *witness) report(out io.Writer) {
	<-w.done
	fmt.Fprintf(out, "%d leaders were elected, %d times a replica left the in-sync set, %d times a log was cut to its leader's.\n",
		w.elections, w.shrinks, w.truncations)
	w.draw(out)
}
