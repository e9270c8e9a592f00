package log

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// turns appends to n logs of a new directory, a few at a time, and reports whether they got a
// journal. All appends of a turn are in their sync when the first of these syncs ends.
func turns(t *testing.T, n, atATime int) (journal bool) {
	t.Helper()
	disk := vfs.Mem()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: disk})
	require.NoError(t, err)
	s := &sharing{fs: disk, dir: d}
	for i := range n {
		s.logs = append(s.logs, s.open(t, i))
	}
	require.NoError(t, s.append("first, with the state of each"))
	gate := make(chan struct{})
	hold := vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpSync && strings.HasSuffix(e.Name, ".log") {
			<-gate
		}
	}}
	remove := disk.Observe(hold)
	for turn := range 2 * journalBusyTimes {
		var wg sync.WaitGroup
		for k := range atATime {
			wg.Go(func() {
				_, err := s.logs[(turn*atATime+k)%n].Append(context.Background(), record.String("", "", fmt.Sprint(turn)))
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		if journal = exists(t, disk, journalFile); journal {
			break
		}
		for range atATime {
			gate <- struct{}{}
		}
		wg.Wait()
	}
	remove()
	close(gate)
	synctest.Wait()
	s.close(t)
	return journal
}

// Checklist row D21: with two processors at most two logs are seen in their syncs at a time. More
// logs that take turns still share a sync.
func TestLogsThatTakeTurnsAtBeingBusyShareASync(t *testing.T) {
	for _, c := range []struct {
		logs, atATime int
		journal       bool
	}{
		{logs: 6, atATime: 2, journal: true},
		{logs: 3, atATime: 2, journal: true},
		{logs: 3, atATime: 3, journal: true},
		{logs: 2, atATime: 2}, // the two syncs run at once
		{logs: 6, atATime: 1}, // one appender that goes round the logs shares with no other
	} {
		t.Run(fmt.Sprintf("%d logs, %d at a time", c.logs, c.atATime), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, c.journal, turns(t, c.logs, c.atATime)) })
		})
	}
}
