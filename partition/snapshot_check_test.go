package partition

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// foreignSnapshots replace the content of a producer snapshot. The replacements are the snapshot
// of a sibling whose log ends at the same offset, an earlier snapshot, and a snapshot without
// producers.
var foreignSnapshots = map[string]func(t *testing.T, own, earlier, sibling []byte) []byte{
	"sibling's": func(_ *testing.T, _, _, sibling []byte) []byte { return sibling },
	"earlier":   func(_ *testing.T, _, earlier, _ []byte) []byte { return earlier },
	"empty":     func(*testing.T, []byte, []byte, []byte) []byte { return newProducers(day).appendSnapshot(nil) },
}

func snapshotOf(p *Partition) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.appendSnapshot(nil)
}

// newestSnapshot returns the path of the newest snapshot of the partition in directory "p".
func newestSnapshot(t *testing.T, fs *vfs.MemFS) string {
	t.Helper()
	entries, err := fs.ReadDir("p")
	require.NoError(t, err)
	name := ""
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".snapshot") {
			name = filepath.Join("p", e.Name())
		}
	}
	require.NotEmpty(t, name)
	return name
}

// fillProducers writes batches of two producers. The sibling gets the same number of batches,
// split in another way.
func fillProducers(t *testing.T, p *Partition, sibling bool) (earlier []byte) {
	t.Helper()
	seqs := map[int64]int32{}
	for i := range 12 {
		pid := int64(1 + i%2)
		if sibling {
			pid = int64(1 + min(i%3, 1))
		}
		require.NoError(t, send(p, batchSpec{pid: pid, seq: seqs[pid]}).Err)
		seqs[pid]++
		if i == 7 {
			earlier = snapshotOf(p)
		}
	}
	return earlier
}

// Another snapshot takes the place of a partition's own. No batch is accepted twice, and the state
// is that in the log.
func TestForeignProducerSnapshotIsNotUsed(t *testing.T) {
	for what, foreign := range foreignSnapshots {
		for _, end := range []string{"clean", "killed", "power cut"} {
			t.Run(what+" "+end, func(t *testing.T) {
				other := openLeader(t, testConfig(vfs.Mem()))
				fillProducers(t, other, true)
				disk := vfs.Mem()
				p := openLeader(t, testConfig(disk))
				earlier := fillProducers(t, p, false)
				if end != "clean" {
					require.NoError(t, p.Roll())
					require.NoError(t, send(p, batchSpec{}).Err)
				}
				own := snapshotOf(p)
				want := p.Producers()
				disk = restarts[end](t, p, disk)
				name := newestSnapshot(t, disk)
				require.NoError(t, vfs.WriteFile(disk, name, foreign(t, own, earlier, snapshotOf(other))))

				p = reopen(t, testConfig(disk), 1)
				require.NoError(t, send(p, batchSpec{}).Err)
				require.Equal(t, want, p.Producers())
				for pid := int64(1); pid <= 2; pid++ {
					for seq := int32(1); seq < 6; seq++ {
						res := send(p, batchSpec{pid: pid, seq: seq})
						require.NoError(t, res.Err)
						require.True(t, res.Duplicate, "producer %d sequence %d", pid, seq)
					}
					require.NoError(t, send(p, batchSpec{pid: pid, seq: 6}).Err)
				}
				require.NoError(t, p.Close())
			})
		}
	}
}

// The first batch after an open repeats one: the snapshot is compared before it is accepted.
func TestRepeatedBatchIsNotAcceptedByAForeignSnapshot(t *testing.T) {
	disk := vfs.Mem()
	p := openLeader(t, testConfig(disk))
	earlier := fillProducers(t, p, false)
	require.NoError(t, p.Close())
	require.NoError(t, vfs.WriteFile(disk, newestSnapshot(t, disk), earlier))
	p = reopen(t, testConfig(disk), 1)
	res := send(p, batchSpec{pid: 1, seq: 4})
	require.NoError(t, res.Err)
	require.True(t, res.Duplicate)
	require.Equal(t, int64(12), p.LogEndOffset())
	require.NoError(t, p.Close())
}

// A snapshot that agrees with the log stays, even if it lacks producers that wrote long ago. It is
// compared once.
func TestSnapshotThatTheLogDoesNotContradictStays(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		disk := vfs.Mem()
		p := openLeader(t, testConfig(disk))
		for seq := range int32(4) {
			require.NoError(t, send(p, batchSpec{pid: 1, seq: seq, ts: 1}).Err)
		}
		require.NoError(t, p.Close())
		name := newestSnapshot(t, disk)
		if forgotten {
			require.NoError(t, vfs.WriteFile(disk, name, newProducers(day).appendSnapshot(nil)))
		}
		p = reopen(t, testConfig(disk), 1)
		require.NoError(t, send(p, batchSpec{}).Err)
		reads := disk.Count(vfs.OpRead)
		require.NoError(t, send(p, batchSpec{}).Err)
		require.Equal(t, reads, disk.Count(vfs.OpRead))
		_, err := disk.Stat(name)
		require.NoError(t, err)
		require.Len(t, p.Producers(), map[bool]int{false: 1, true: 0}[forgotten])
		require.NoError(t, p.Close())
	}
}

// While the log cannot be read, it is unknown whether a batch repeats one: it is not accepted.
func TestProducersWaitForASnapshotThatCannotBeCompared(t *testing.T) {
	disk := vfs.Mem()
	p := openLeader(t, testConfig(disk))
	earlier := fillProducers(t, p, false)
	require.NoError(t, p.Roll())
	require.NoError(t, p.Close())
	require.NoError(t, vfs.WriteFile(disk, newestSnapshot(t, disk), earlier))
	p = reopen(t, testConfig(disk), 1)
	heal := disk.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "00000000000000000000.log", Times: vfs.Always, Err: syscall.EIO})
	require.ErrorIs(t, send(p, batchSpec{pid: 2, seq: 4}).Err, syscall.EIO)
	require.NoError(t, send(p, batchSpec{}).Err, "a batch of no producer repeats none")
	heal()
	require.True(t, send(p, batchSpec{pid: 2, seq: 4}).Duplicate)
	require.NoError(t, p.Close())
}

// A follower that begins within the log does not get the producers of a foreign snapshot.
func TestFollowerGetsNoForeignProducers(t *testing.T) {
	disk := vfs.Mem()
	p := openLeader(t, testConfig(disk))
	earlier := fillProducers(t, p, false)
	want := snapshotOf(p)
	require.NoError(t, p.Roll())
	require.NoError(t, vfs.WriteFile(disk, newestSnapshot(t, disk), earlier))
	got, err := p.producersFor(12, nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, p.Close())
}

// Each difference between a snapshot and the batches below it is found. Batches that compaction
// has removed and producers that have expired are no differences.
func TestSnapshotIsComparedWithTheBatchesBelowIt(t *testing.T) {
	state := func(entries ...[4]int64) *producers { // producer, epoch, sequence, offset
		s := newProducers(day)
		for _, e := range entries {
			b := &producerEntry{epoch: int16(e[1]), coordinatorEpoch: -1, txnFirstOffset: -1}
			if e[3] >= 0 {
				b.push(seqBatch{lastSeq: int32(e[2]), lastOffset: e[3], timestamp: 1000})
			}
			s.m[e[0]] = b
		}
		return s
	}
	w := heldWindow{from: 5, to: 10}
	for i, c := range []struct {
		snapshot, held *producers
		w              heldWindow
		agrees         bool
	}{
		{state([4]int64{1, 0, 3, 9}), state([4]int64{1, 0, 3, 9}), w, true},
		{state([4]int64{1, 0, 3, 9}, [4]int64{2, 0, 7, 4}), state([4]int64{1, 0, 3, 9}), w, true},
		{state([4]int64{1, 0, 3, 9}, [4]int64{2, 0, 7, 6}), state([4]int64{1, 0, 3, 9}), w, false},
		{state([4]int64{1, 0, 3, 9}, [4]int64{2, 0, 7, 6}), state([4]int64{1, 0, 3, 9}), heldWindow{from: 5, to: 10, compacted: true}, true},
		{state([4]int64{1, 0, 3, 10}), state(), heldWindow{from: 5, to: 10, compacted: true}, false},
		{state([4]int64{1, 0, 2, 9}), state([4]int64{1, 0, 3, 9}), w, false},
		{state([4]int64{1, 0, 3, 4}), state([4]int64{1, 0, 9, 9}), w, false},
		{state([4]int64{1, 0, 3, 9}), state([4]int64{1, 1, -1, -1}), w, false},
		{state([4]int64{1, 0, 3, 4}), state([4]int64{1, 1, -1, -1}), w, false},
		{state([4]int64{1, 0, 3, 4}), state([4]int64{1, 0, -1, -1}), w, true},
		{state(), state([4]int64{1, 0, 3, 9}), w, false},
		{state(), state([4]int64{1, 0, 3, 9}), heldWindow{from: 5, to: 10, fresh: 1000}, true},
		{state([4]int64{2, 0, 3, 9}), state([4]int64{2, 0, 3, 9}, [4]int64{1, 0, 3, 8}), w, true},
	} {
		require.Equal(t, c.agrees, c.snapshot.contradicts(c.held, c.w) == "", fmt.Sprint(i))
	}
}
