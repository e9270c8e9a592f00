package journal

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/vfs"
)

// tiny is a minimal log: one file of bytes that depend on their position. Its files are written
// without a sync.
type tiny struct {
	name string
	file vfs.File

	mu   sync.Mutex // guards the fields below
	size int64
	err  error // of a sync
}

func (l *tiny) Settle() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.file.Sync()
	}
	return l.err
}

// byteAt returns the right byte at a position of a log.
func byteAt(name string, pos int64) byte { return byte(1 + (pos*131+int64(name[0])*7)%255) }

func (l *tiny) next(n int64) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byteAt(l.name, l.size+int64(i))
	}
	return p
}

// tinies are logs that share a journal.
type tinies struct {
	fs    vfs.FS
	j     *Journal[*tiny]
	logs  []*tiny
	mu    sync.Mutex // guards acked
	acked map[string]int64
}

func openTinies(fsys vfs.FS, n int) (*tinies, error) {
	s := &tinies{fs: fsys, acked: map[string]int64{}}
	for i := range n {
		name := string(rune('a' + i))
		f, err := fsys.OpenFile(testDir+"/"+name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		s.logs = append(s.logs, &tiny{name: name, file: f})
	}
	if err := fsys.SyncDir(testDir); err != nil {
		return nil, err
	}
	j, err := Create[*tiny](testPath, Config{FS: fsys, HalfSize: 4096, Settlers: 1})
	s.j = j
	return s, err
}

// round appends to some of the logs with the journal. If the journal is full or out of use it
// syncs each log.
func (s *tinies) round(rnd *rand.Rand) error {
	var holders []*tiny
	f := new(Frame)
	for _, l := range s.logs {
		if rnd.IntN(3) == 0 {
			continue
		}
		p := l.next(1 + rnd.Int64N(400))
		if _, err := l.file.WriteAt(p, l.size); err != nil {
			return err // a log would truncate it
		}
		f.Add(Entry{Log: l.name, Pos: l.size}, p)
		l.size += int64(len(p))
		holders = append(holders, l)
	}
	if err := s.j.Append(f, holders); err != nil {
		for _, l := range holders {
			if l.Settle() == nil {
				s.ack(l)
			}
		}
	} else {
		for _, l := range holders {
			s.ack(l)
		}
	}
	if s.j.Due() && rnd.IntN(3) == 0 {
		return s.j.Checkpoint()
	}
	if rnd.IntN(20) == 0 {
		return s.j.Drain()
	}
	return nil
}

func (s *tinies) ack(l *tiny) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[l.name] = l.size
}

func (s *tinies) close() {
	for _, l := range s.logs {
		_ = l.file.Close()
	}
	_ = s.j.Close()
}

// recoverTinies replays the entries of the journal and returns the number of valid bytes of each
// log.
func recoverTinies(fsys vfs.FS) (map[string]int64, error) {
	c, err := Load(fsys, testPath)
	if err != nil {
		return nil, err
	}
	for _, e := range c.Entries {
		f, err := fsys.OpenFile(testDir+"/"+e.Log, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if _, err := f.WriteAt(e.Data, e.Pos); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	good := map[string]int64{}
	for name := range map[string]bool{"a": true, "b": true, "c": true} {
		f, err := fsys.OpenFile(testDir+"/"+name, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		p, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		if err != nil {
			return nil, err
		}
		for good[name] < int64(len(p)) && p[good[name]] == byteAt(name, good[name]) {
			good[name]++
		}
	}
	return good, nil
}

// Every acknowledged byte is there after a crash at any call: in the log's file, or in the
// journal.
func TestCrashAtEveryCallLosesNothingThatWasAcknowledged(t *testing.T) {
	states, seeds := 0, uint64(3)
	if sample.Hurried() {
		seeds = 1
	}
	for seed := range seeds {
		fsys := testFS(t)
		s, err := openTinies(fsys, 3)
		require.NoError(t, err)
		var fail error
		stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if e.Op&vfs.OpChange == 0 || fail != nil {
				return
			}
			states++
			fail = s.lost(fsys, seed, e)
		}})
		rnd := rand.New(rand.NewPCG(seed, 1))
		for range 60 {
			require.NoError(t, s.round(rnd))
			require.NoError(t, fail, "seed %d", seed)
		}
		stop()
		s.close()
	}
	t.Log("states:", states)
}

// lost returns an error if a crash at this moment would lose acknowledged bytes.
func (s *tinies) lost(fsys *vfs.MemFS, seed uint64, e vfs.Event) error {
	for _, o := range []vfs.CrashOptions{
		{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
		{Data: vfs.CrashTorn, Seed: seed + uint64(e.N)},
		{Data: vfs.CrashOrdered, Sizes: vfs.CrashOrdered, Entries: vfs.CrashOrdered, Seed: seed + uint64(e.N)},
		{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
	} {
		good, err := recoverTinies(fsys.CrashWith(o))
		if err != nil {
			return fmt.Errorf("before %v of %s: %w", e.Op, e.Name, err)
		}
		for name, n := range s.acked {
			if good[name] < n {
				return fmt.Errorf("before %v of %s, data %v: %d bytes of log %s were acknowledged, %d are good", e.Op, e.Name, o.Data, n, name, good[name])
			}
		}
	}
	return nil
}

// Like TestCrashAtEveryCallLosesNothingThatWasAcknowledged, with each call failing once.
func TestFaultAtEveryCallLosesNothingThatWasAcknowledged(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpOpen} {
		for after := 0; ; after++ {
			fsys := testFS(t)
			s, err := openTinies(fsys, 3)
			require.NoError(t, err)
			var hit atomic.Bool
			fsys.Observe(vfs.Observer{After: func(_ vfs.Event, err error) { hit.CompareAndSwap(false, err != nil) }})
			fsys.Inject(vfs.Fault{Ops: op, After: after, Err: syscall.EIO})
			rnd := rand.New(rand.NewPCG(uint64(after), 2))
			for range 40 {
				if err := s.round(rnd); err != nil {
					break // of a log's own write, or the checkpoint's
				}
			}
			require.NoError(t, s.lost(fsys, uint64(after), vfs.Event{}), "%v %d", op, after)
			s.close()
			if !hit.Load() {
				break
			}
		}
	}
}
