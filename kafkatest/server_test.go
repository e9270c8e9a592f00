package kafkatest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

var _ T = testing.TB(nil)

func TestConfigsThatMakeNoSenseAreRefused(t *testing.T) {
	for says, cfg := range map[string]Config{
		"there can be 100":             {Brokers: 101},
		"2 racks for 3 brokers":        {Brokers: 3, Racks: []string{"a", "b"}},
		"2 racks for 1 brokers":        {Racks: []string{"a", "b"}},
		"negative number":              {Brokers: -1},
		"unknown release":              {Release: 200},
		"Sync without a Dir":           {Sync: true},
		"or with an FS":                {Sync: true, Dir: "d", FS: vfs.Mem()},
		"negative WaitTimeout":         {WaitTimeout: -1},
		"2 partitions in Topics and 3": {Topics: map[string]int{"a": 2}, TopicConfigs: map[string]topic.Config{"a": {Partitions: 3}}},
		"invalid":                      {Topics: map[string]int{"a/b": 1}},
		"no.such.key":                  {TopicConfigs: map[string]topic.Config{"a": {Properties: map[string]string{"no.such.key": "1"}}}},
	} {
		f := &fakeT{}
		require.Contains(t, f.run(func() { New(f, cfg) }), says)
	}
}

func TestTopicsAreThereWhenNewReturns(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 3, "b": 1}, TopicConfigs: map[string]topic.Config{
		"b": {Properties: map[string]string{"cleanup.policy": "compact"}}, "c": {}}, Defaults: topic.Config{Partitions: 2}})
	infos, err := s.Cluster().Topics(t.Context())
	require.NoError(t, err)
	partitions := map[string]int{}
	for _, i := range infos {
		partitions[i.Name] = len(i.Partitions)
	}
	require.Equal(t, map[string]int{"a": 3, "b": 1, "c": 2}, partitions)
}

func TestServerKeepsItsDataInADirectory(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := t.TempDir()
		f := &fakeT{}
		require.Empty(t, f.run(func() {
			New(f, Config{Dir: dir, Sync: sync, Topics: map[string]int{"a": 1}}).Fill("a", record.String("a", "", "kept"))
		}))
		got := New(t, Config{Dir: dir, Sync: sync}).Topic("a")
		require.Len(t, got, 1)
	}
}

func TestUnsyncedFilesSaySoToNobodyButTheDisk(t *testing.T) {
	fs := vfs.Mem()
	f, err := unsynced{fs}.OpenFile("a", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, unsynced{fs}.SyncDir("."))
	require.Zero(t, fs.Count(vfs.OpSync|vfs.OpSyncDir))
	_, err = unsynced{fs}.OpenFile("b", os.O_RDWR, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestFileSystemCanBeTheTests(t *testing.T) {
	fs := vfs.Mem()
	f := &fakeT{}
	said := f.run(func() {
		s := New(f, Config{FS: fs, Topics: map[string]int{"a": 1}, WaitTimeout: 100 * time.Millisecond})
		s.Fill("a", record.String("a", "", "1"))
		fs.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Times: vfs.Always, Err: vfs.ErrLocked})
		s.Fill("a", record.String("a", "", "2"))
	})
	require.Contains(t, said, "fill a")
}

func TestGoroutineLeftBehindFailsTheTest(t *testing.T) {
	f := &fakeT{}
	stop, ended := make(chan struct{}), make(chan struct{})
	said := f.run(func() {
		s := New(f, Config{Pipe: true})
		relabelled(s.label, func() { // as if the broker had started it
			go func() { <-stop; close(ended) }()
		})
	})
	close(stop)
	<-ended
	require.Contains(t, said, "1 goroutines of the broker are left")
	require.Contains(t, said, "TestGoroutineLeftBehindFailsTheTest")
}

func TestWaitGroupSaysWhatWasSeen(t *testing.T) {
	f := &fakeT{}
	said := f.run(func() {
		s := New(f, Config{Pipe: true, Topics: map[string]int{"a": 1}, WaitTimeout: 50 * time.Millisecond})
		seven := map[record.TopicPartition]record.Committed{{Topic: "a"}: {Offset: 7}}
		if _, err := s.Cluster().CommitOffsets(t.Context(), group.CommitRequest{Group: "g", Generation: -1, Offsets: seven}); err != nil {
			t.Error(err)
		}
		s.WaitCommitted("g", record.TopicPartition{Topic: "a"}, 7)
		s.WaitGroup("g", group.StableWith(2))
	})
	require.Contains(t, said, "waiting for group g: context deadline exceeded; last seen: Empty")
	require.Contains(t, said, "committed a-0: 7 of 0")

	f = &fakeT{}
	said = f.run(func() {
		s := New(f, Config{Pipe: true, WaitTimeout: 50 * time.Millisecond})
		s.WaitCommitted("g", record.TopicPartition{Topic: "a"}, 7)
	})
	require.Contains(t, said, "waiting for group g to commit 7 for a-0: context deadline exceeded; last seen: Dead")

	f = &fakeT{}
	said = f.run(func() {
		s := New(f, Config{Pipe: true, WaitTimeout: 50 * time.Millisecond})
		s.WaitRequests(1, Answered(kafka.Produce))
	})
	require.Contains(t, said, "waiting for 1 requests: context deadline exceeded; there are 0")
}

func TestWaitsAreBoundedByTheTestsDeadlineAndLongInVirtualTime(t *testing.T) {
	s := New(t, Config{Pipe: true})
	require.Equal(t, defaultWait, s.wait)
	if deadline, ok := t.Deadline(); ok {
		require.Equal(t, deadline.Add(-deadlineMargin), s.testEnds)
	}
	s.testEnds = time.Now().Add(time.Second)
	ctx, cancel := s.waitContext()
	defer cancel()
	deadline, _ := ctx.Deadline()
	require.Equal(t, s.testEnds, deadline)

	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, virtualWait, New(t, Config{Pipe: true}).wait)
		require.Equal(t, time.Hour, New(t, Config{Pipe: true, WaitTimeout: time.Hour}).wait)
	})
}

func TestPipeAddressesAreNoRealHosts(t *testing.T) {
	s := New(t, Config{Pipe: true})
	require.Equal(t, []string{"broker-1.kafkatest.invalid:9092"}, s.Addrs())
	require.True(t, strings.HasPrefix(New(t, Config{}).Addrs()[0], "127.0.0.1:"))
}
