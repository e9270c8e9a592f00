package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// liveRuns returns how often each command is run beside a live writer: $STRATA_VIEWS times, or 40.
func liveRuns(t *testing.T) int {
	if s := os.Getenv("STRATA_VIEWS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	return 40
}

// writeLively appends, rolls, compacts, removes, deletes and truncates until stop is closed.
func writeLively(dir string, stop <-chan struct{}) error {
	cfg := log.Config{SegmentBytes: 3000, Sync: log.SyncNever, RetentionBytes: 20000, Cleanup: log.CleanupCompact | log.CleanupDelete, MinDirtyRatio: 0.01}
	l, err := log.Open(dir, cfg)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return l.Close()
		default:
		}
		switch rnd.IntN(12) {
		case 0:
			err = l.Roll()
		case 1:
			_, err = l.Clean(ctx)
		case 2:
			err = l.DeleteRecords(l.StartOffset() + (l.EndOffset()-l.StartOffset())/4)
		case 3:
			err = l.TruncateTo(max(l.EndOffset()-rnd.Int64N(40), l.StartOffset()))
		default:
			_, err = l.Append(ctx, record.String("", "k"+strconv.Itoa(rnd.IntN(8)), strings.Repeat("v", rnd.IntN(300))+fmt.Sprint(i)))
		}
		if err != nil {
			return errors.Join(err, l.Close())
		}
	}
}

// beside runs do while dir is written to.
func beside(t *testing.T, dir string, do func()) {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- writeLively(dir, stop) }()
	defer func() {
		close(stop)
		require.NoError(t, <-done)
	}()
	for {
		if l, err := log.OpenReadOnly(dir, log.Config{}); err == nil {
			end := l.EndOffset()
			require.NoError(t, l.Close())
			if end > 50 {
				break
			}
		}
	}
	do()
}

func TestVerifyFindsNoDamageBesideALiveWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	beside(t, dir, func() {
		for range liveRuns(t) {
			r := strataRun(t, "verify", dir)
			require.Equal(t, exitOK, r.code, r.out+r.err)
		}
	})
	r := strataRun(t, "verify", dir)
	require.Equal(t, exitOK, r.code, r.out)
}

func TestDumpFindsNoDamageBesideALiveWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	beside(t, dir, func() {
		for range liveRuns(t) {
			entries, err := vfs.OS().ReadDir(dir)
			require.NoError(t, err)
			for _, e := range entries {
				if name := e.Name(); strings.HasSuffix(name, ".log") || name == "strata.state" {
					r := strataRun(t, "dump", "-v", filepath.Join(dir, name))
					if !strings.Contains(r.err, "no such file") {
						require.Equal(t, exitOK, r.code, r.out+r.err)
					}
				}
			}
		}
	})
}
