package main

import (
	"context"
	"fmt"
	"io"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
)

// A witness counts what happens to the partition.
type witness struct {
	elections, shrinks, truncations int
	done                            chan struct{} // closed when the cluster is
}

// watch returns a witness of what happens until the cluster is closed.
func watch(ctx context.Context, cluster *strata.Cluster) *witness {
	w := &witness{done: make(chan struct{})}
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
	switch e.Kind {
	case replication.LeaderElected:
		w.elections++
	case replication.ISRShrunk:
		w.shrinks++
	case replication.LogTruncated:
		w.truncations++
	}
}

// tell prints what was seen, when the cluster is closed.
func (w *witness) tell(out io.Writer) {
	<-w.done
	fmt.Fprintf(out, "%d times a leader was elected, %d times somebody left the in-sync set, %d times a log was cut to what its leader has.\n",
		w.elections, w.shrinks, w.truncations)
}
