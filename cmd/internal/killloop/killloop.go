// Package killloop kills a broker again and again with SIGKILL while clients use it, and checks
// that no acknowledged data is lost: every record once and in order, every committed offset.
//
// The clients are franz-go's: idempotent producers, a reader that follows the log, a consumer group
// that commits. They run through all crashes of the broker.
package killloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Config describes a loop.
type Config struct {
	// Start starts the broker on an address and returns when it is ready, with the address. The
	// first time the address is "": any will do.
	Start func(ctx context.Context, addr string) (Broker, string, error)

	Cycles     int   // kills
	Partitions int32 // of the topic; 0: 4
	Producers  int   // 0: 4; producer i writes to partition i modulo Partitions

	// MaxAlive bounds the time, which is random, between the clients' first progress after a
	// restart and the next kill. 0: 150 ms.
	MaxAlive time.Duration

	// Killed is called after each kill, while no broker is running; may be nil.
	Killed func() error
}

// A Broker is a running broker process.
type Broker interface {
	Kill() error // sends SIGKILL and waits until the process has ended
}

// A Report is the result of a loop. All of Lost, Duplicates, Reordered and CommitsLost should be 0.
type Report struct {
	Cycles                int
	Acked                 int64 // records acknowledged
	Read                  int64 // records read back at the end
	Tailed                int64 // records that the tailing reader saw
	Commits               int64 // commits acknowledged
	Lost                  int64 // acknowledged records that a reader did not receive
	Duplicates, Reordered int64
	CommitsLost           int64 // partitions whose committed offset was below an acknowledged commit
	Failed                int64 // records that a producer gave up
	Revoked               int   // times that the group's members lost partitions: they should stay members
	RestartMedian         time.Duration
	RestartMax            time.Duration
	Elapsed               time.Duration
}

// Err returns an error if anything was lost, doubled or reordered.
func (r Report) Err() error {
	if r.Lost+r.Duplicates+r.Reordered+r.CommitsLost+r.Failed > 0 {
		return fmt.Errorf("kill loop: %d lost, %d duplicates, %d reordered, %d commits lost, %d failed", r.Lost, r.Duplicates, r.Reordered, r.CommitsLost, r.Failed)
	}
	return nil
}

// topicName is the topic that all clients use.
const topicName = "killed"

// patience bounds every wait for progress of the clients.
const patience = 60 * time.Second

// Run runs the loop. Its error is about the setup, or a client without progress; Report.Err is
// about faults of the broker.
func Run(ctx context.Context, cfg Config) (rep Report, err error) {
	if cfg.Partitions == 0 {
		cfg.Partitions = 4
	}
	if cfg.Producers == 0 {
		cfg.Producers = 4
	}
	if cfg.MaxAlive == 0 {
		cfg.MaxAlive = 150 * time.Millisecond
	}
	began := time.Now()
	broker, addr, err := cfg.Start(ctx, "")
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, broker.Kill()) }()
	load, err := newLoad(ctx, cfg, addr)
	if err != nil {
		return rep, err
	}
	defer load.stop()
	var restarts []time.Duration
	for range cfg.Cycles {
		if err := load.gotOn(ctx); err != nil {
			return rep, err
		}
		if err := pause(ctx, rand.N(cfg.MaxAlive)); err != nil {
			return rep, err
		}
		if err := broker.Kill(); err != nil {
			return rep, err
		}
		rep.Cycles++
		if cfg.Killed != nil {
			if err := cfg.Killed(); err != nil {
				return rep, fmt.Errorf("after kill %d: %w", rep.Cycles, err)
			}
		}
		committed := load.committed()
		down := time.Now()
		if broker, _, err = cfg.Start(ctx, addr); err != nil {
			return rep, fmt.Errorf("restart after kill %d: %w", rep.Cycles, err)
		}
		restarts = append(restarts, time.Since(down))
		lost, err := load.commitsLost(ctx, committed)
		if err != nil {
			return rep, err
		}
		rep.CommitsLost += lost
	}
	if err := load.gotOn(ctx); err != nil {
		return rep, err
	}
	if err := load.settle(ctx, &rep); err != nil {
		return rep, err
	}
	slices.Sort(restarts)
	if n := len(restarts); n > 0 {
		rep.RestartMedian, rep.RestartMax = restarts[n/2], restarts[n-1]
	}
	rep.Elapsed = time.Since(began)
	return rep, nil
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
