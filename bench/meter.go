package main

import (
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"syscall"
	"time"
)

// meter measures time, CPU time and heap activity of the timed region.
type meter struct {
	t   time.Time
	m   runtime.MemStats
	cpu time.Duration
}

func startMeter() *meter {
	m := &meter{}
	runtime.GC()
	runtime.ReadMemStats(&m.m)
	if profile := os.Getenv("BENCH_CPUPROFILE"); profile != "" {
		f, err := os.Create(profile)
		must(err)
		must(pprof.StartCPUProfile(f))
	}
	if os.Getenv("BENCH_MEMPROFILE") != "" {
		runtime.MemProfileRate = 1 // profile only allocations from here on
	}
	if file := os.Getenv("BENCH_TRACE"); file != "" {
		f, err := os.Create(file)
		must(err)
		must(trace.Start(f))
	}
	m.t, m.cpu = time.Now(), cpuTime()
	return m
}

// cpuTime returns the CPU time of this process, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (m *meter) stop(records, bytes int64) Result {
	d, cpu := time.Since(m.t).Seconds(), cpuTime()-m.cpu
	pprof.StopCPUProfile()
	trace.Stop()
	if profile := os.Getenv("BENCH_MEMPROFILE"); profile != "" {
		f, err := os.Create(profile)
		must(err)
		must(pprof.Lookup("allocs").WriteTo(f, 0))
		must(f.Close())
	}
	var e runtime.MemStats
	runtime.ReadMemStats(&e)
	n := float64(max(records, 1))
	return Result{Records: records, RecsPerS: float64(records) / d, MBPerS: float64(bytes) / d / 1e6,
		CPUNs:  float64(cpu) / n,
		Allocs: float64(e.Mallocs-m.m.Mallocs) / n, AllocB: float64(e.TotalAlloc-m.m.TotalAlloc) / n}
}

// noise returns shared source data. It is random, so that it does not compress, and larger than the
// innermost CPU caches.
var noise = sync.OnceValue(func() []byte {
	buf := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(buf)
	return buf
})

// payloads returns a function that returns the next batch of records, cut from noise. The batch is
// borrowed until the next call.
func payloads(size, batch int) func() [][]byte {
	buf, pos := noise(), 0
	recs := make([][]byte, batch)
	return func() [][]byte {
		for i := range recs {
			if pos+size > len(buf) {
				pos = 0
			}
			recs[i] = buf[pos : pos+size]
			pos += size
		}
		return recs
	}
}
