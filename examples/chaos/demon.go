package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
)

// A demon causes faults. At most one broker is down at a time, so that two can continue; cuts may
// still stop them for a while.
type demon struct {
	cluster     *strata.Cluster
	rng         *rand.Rand
	down        map[int32]bool
	kills, cuts int
}

func (d *demon) rage(ctx context.Context) error {
	for range blows {
		time.Sleep(time.Duration(1+d.rng.IntN(25)) * time.Millisecond) // time for the brokers to work in between
		if err := d.blow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// blow causes a fault, or repairs one.
func (d *demon) blow(ctx context.Context) error {
	from := d.rng.Int32N(3)
	path := replication.NetworkPath{From: 1 + from, To: 1 + (from+1+d.rng.Int32N(2))%3}
	switch d.rng.IntN(5) {
	case 0: // the leader, if there is one
		return d.kill(d.cluster.Status(orders).Leader)
	case 1:
		return d.kill(1 + d.rng.Int32N(3))
	case 2:
		return d.startAll(ctx)
	case 3:
		d.cluster.Network().Cut(path)
		d.cuts++
	default:
		d.mendPaths()
	}
	return nil
}

func (d *demon) kill(id int32) error {
	if id < 1 || len(d.down) > 0 {
		return nil
	}
	d.down[id] = true
	d.kills++
	return d.cluster.KillBroker(id)
}

func (d *demon) startAll(ctx context.Context) error {
	for id := range d.down {
		delete(d.down, id)
		if err := d.cluster.StartBroker(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (d *demon) mendPaths() {
	for from := range int32(3) {
		for to := range int32(3) {
			d.cluster.Network().Mend(replication.NetworkPath{From: from + 1, To: to + 1})
		}
	}
}

// mend repairs all faults, and waits until all replicas are in sync.
func (d *demon) mend(ctx context.Context) error {
	d.mendPaths()
	if err := d.startAll(ctx); err != nil {
		return err
	}
	return d.cluster.WaitISR(ctx, orders)
}
