package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

func opLatency(j Job) (Result, error) {
	s := lookup(j.Subject).pubsub()
	if err := s.Open(j.Dir); err != nil {
		return Result{}, err
	}
	epoch := time.Now()
	var mu sync.Mutex
	var lats []int64
	got := make(chan struct{}, 1<<16)
	err := s.Subscribe(func(rec []byte) {
		d := sinceStamp(rec, epoch)
		mu.Lock()
		lats = append(lats, d)
		mu.Unlock()
		got <- struct{}{}
	})
	if err != nil {
		return Result{}, err
	}
	rec := make([]byte, j.Size)
	send := func() error {
		stampTime(rec, epoch)
		return s.Publish(slices.Clone(rec))
	}
	wait := func(n int) error {
		timeout := time.After(10 * time.Second)
		for range n {
			select {
			case <-got:
			case <-timeout:
				return fmt.Errorf("a record did not arrive within 10 s")
			}
		}
		return nil
	}
	for range 20 { // warm up connections and caches
		if err := send(); err != nil {
			return Result{}, err
		}
	}
	if err := wait(20); err != nil {
		return Result{}, err
	}
	mu.Lock()
	lats = lats[:0]
	mu.Unlock()
	m := startMeter()
	n := int(j.MaxTime / time.Millisecond)
	tick := time.NewTicker(time.Millisecond)
	for range n {
		<-tick.C
		if err := send(); err != nil {
			return Result{}, err
		}
	}
	if err := wait(n); err != nil {
		return Result{}, err
	}
	r := m.stop(int64(n), int64(n*j.Size))
	r.RecsPerS, r.MBPerS = 0, 0
	r.P50, r.P99, r.P999 = percentiles(lats)
	return r, nil
}

// stampTime writes the time since epoch to the first 8 bytes of a record, for sinceStamp.
func stampTime(rec []byte, epoch time.Time) {
	binary.LittleEndian.PutUint64(rec, uint64(time.Since(epoch)))
}

func sinceStamp(rec []byte, epoch time.Time) int64 {
	return int64(time.Since(epoch)) - int64(binary.LittleEndian.Uint64(rec))
}

func percentiles(ns []int64) (p50, p99, p999 float64) {
	if len(ns) == 0 {
		return
	}
	slices.Sort(ns)
	at := func(q float64) float64 { return float64(ns[min(len(ns)-1, int(q*float64(len(ns))))]) / 1000 }
	return at(0.5), at(0.99), at(0.999)
}

func rssPeak() float64 {
	b, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(b), "\n") {
		var kb float64
		if _, err := fmt.Sscanf(l, "VmHWM: %f kB", &kb); err == nil {
			return kb / 1024
		}
	}
	return 0
}
