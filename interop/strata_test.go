package interop

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/transaction"
)

// TestStrata runs the checks against Strata, on files.
func TestStrata(t *testing.T) {
	t.Parallel()
	k, _ := startStrata(t)
	runAll(t, k)
}

// TestStrataOfThreeBrokers runs the checks against a cluster of three. Every client has the
// address of one.
func TestStrataOfThreeBrokers(t *testing.T) {
	t.Parallel()
	ks, _ := startStrataBrokers(t, 3)
	runAll(t, ks[1])
}

// startStrata serves a new directory until the end of the test, or until stop is called. A request
// that failed with an unexpected error fails the test.
func startStrata(t *testing.T) (k target, stop func()) {
	t.Helper()
	ks, stop := startStrataBrokers(t, 1)
	return ks[0], stop
}

// startStrataAt is startStrata at a level of transaction.version.
func startStrataAt(t *testing.T, level int16) target {
	t.Helper()
	if level == 0 {
		level = transaction.LevelZero
	}
	ks, _ := startStrataWith(t, 1, func(cfg *strata.Config) {
		cfg.Transactions.Version = level
		cfg.Group.OffsetsPartitions = 4 // as in the broker of Kafka that is compared
	})
	return ks[0]
}

// startStrataBrokers is startStrata for a cluster of n brokers, each in a rack of its own.
func startStrataBrokers(t *testing.T, n int) (ks []target, stop func()) {
	t.Helper()
	return startStrataWith(t, n, func(*strata.Config) {})
}

func startStrataWith(t *testing.T, n int, edit func(*strata.Config)) (ks []target, stop func()) {
	t.Helper()
	return startStrataServing(t, n, edit, func(*kafka.Config) {})
}

func startStrataServing(t *testing.T, n int, edit func(*strata.Config), serving func(*kafka.Config)) (ks []target, stop func()) {
	t.Helper()
	s := serveStrata(t, n, edit, serving)
	return s.targets, s.stop
}

// A serving is a Strata cluster and the server of its brokers.
type serving struct {
	targets []target
	stop    func()
	listen  func(ln net.Listener) // serves the first broker at another listener, too
}

func serveStrata(t *testing.T, n int, edit func(*strata.Config), configure func(*kafka.Config)) (s serving) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	specs := map[int32]replication.BrokerSpec{}
	for id := int32(1); n > 1 && id <= int32(n); id++ {
		specs[id] = replication.BrokerSpec{Rack: fmt.Sprint("rack", id)}
	}
	cfg := strata.Config{Dir: dir, Brokers: n, BrokerSpecs: specs}
	edit(&cfg)
	cluster, err := strata.Open(cfg)
	require.NoError(t, err)
	var errs syncBuffer
	how := kafka.Config{Logger: slog.New(slog.NewTextHandler(&errs, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	configure(&how)
	server := kafka.NewServer(cluster, how)
	lns := map[int32]net.Listener{}
	for id := int32(1); id <= int32(n); id++ {
		lns[id], err = net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s.targets = append(s.targets, target{kind: "strata", addr: lns[id].Addr().String(), dir: cfg.Dir})
	}
	var ends []<-chan error
	serve := func(lns map[int32]net.Listener) {
		ended := make(chan error, 1)
		ends = append(ends, ended)
		go func() { ended <- server.ServeAll(lns) }()
	}
	serve(lns)
	s.listen = func(ln net.Listener) { serve(map[int32]net.Listener{1: ln}) }
	closed := false
	s.stop = func() {
		if closed {
			return
		}
		closed = true
		require.NoError(t, server.Close())
		for _, ended := range ends {
			require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
		}
		require.NoError(t, cluster.Close())
		for line := range bytes.Lines(errs.bytes()) {
			if bytes.Contains(line, []byte("level=ERROR")) {
				t.Errorf("the server says: %s", line)
			} else if os.Getenv("STRATA_INTEROP_LOG") != "" {
				t.Logf("%s", line)
			}
		}
	}
	t.Cleanup(s.stop)
	return s
}
