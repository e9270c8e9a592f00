package main

import (
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/stratalog/strata"
)

const (
	// memoryOfPartition is a generous bound of the memory of a partition, in bytes.
	memoryOfPartition = 8 << 10
	// memoryBeside is an estimate of the memory that the limit does not cover: code and mapped files.
	memoryBeside = 64 << 20
)

// limitMemory has Go's collector run more often before the process takes more than clients can fill
// and partitions need. Otherwise the process takes twice as much under a load that fills all. The
// limit follows the number of partitions. The returned function ends that, and waits for its end.
//
// GOMEMLIMIT in the environment takes precedence. A cluster without files has its records in
// memory, which no limit bounds: there is no limit for it.
func limitMemory(clients int64, cluster *strata.Cluster, files bool, logger *slog.Logger) (end func()) {
	if !files || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	set := func() {
		debug.SetMemoryLimit(clients - memoryBeside + memoryOfPartition*int64(cluster.Stats().Brokers.Partitions))
	}
	set()
	logger.Info("memory limit of the process", "bytes", debug.SetMemoryLimit(-1)) // as it is now
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				set()
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-ended }
}
