package segment

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// model is a segment as a list of encoded batches.
type model struct {
	batches [][]byte
	infos   []BatchInfo
	synced  int // number of synced batches
}

func (m *model) bytes(from int) (p []byte) {
	for _, b := range m.batches[from:] {
		p = append(p, b...)
	}
	return p
}

// at returns the first batch that reaches to offset.
func (m *model) at(offset int64) int {
	for i, b := range m.infos {
		if b.LastOffset >= offset {
			return i
		}
	}
	return len(m.infos)
}

// Random operations on a segment and on a list, which are compared after each operation.
func TestSegmentDoesWhatAListDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fsys := vfs.Mem()
		require.NoError(t, vfs.MakeDir(fsys, testDir, 0o755))
		interval := rapid.SampledFrom([]int{1, 200, 4096}).Draw(t, "interval")
		cfg := Config{FS: fsys, IndexIntervalBytes: interval, Files: NewFileCache(1)}
		s, err := Create(testDir, 0, cfg)
		require.NoError(t, err)
		require.NoError(t, fsys.SyncDir(testDir))
		m := &model{}
		reopen := func(o OpenOptions) {
			cfg.FS, cfg.Files = fsys, NewFileCache(1)
			var err error
			s, err = Open(testDir, 0, cfg, o)
			require.NoError(t, err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				var p [][]byte
				var infos []BatchInfo
				next := s.NextOffset() + int64(rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "gap"))
				for range rapid.IntRange(1, 4).Draw(t, "batches") {
					b := batch(next, rapid.IntRange(1, 3).Draw(t, "records"), rapid.Int64Range(0, 1000).Draw(t, "time"), rapid.IntRange(0, 200).Draw(t, "size"))
					p, infos = append(p, b), append(infos, infoOf(b)...)
					next = infos[len(infos)-1].LastOffset + 1
				}
				m.batches, m.infos = append(m.batches, p...), append(m.infos, infos...)
				require.NoError(t, s.Append(append([][]byte(nil), p...), infos))
			},
			"preallocate": func(t *rapid.T) { require.NoError(t, s.Preallocate(3000)) },
			"sync": func(t *rapid.T) {
				require.NoError(t, s.Sync())
				m.synced = len(m.batches)
			},
			"truncate": func(t *rapid.T) {
				offset := rapid.Int64Range(0, s.NextOffset()).Draw(t, "offset")
				require.NoError(t, s.Truncate(offset))
				n := m.at(offset)
				m.batches, m.infos, m.synced = m.batches[:n], m.infos[:n], min(m.synced, n)
			},
			"seal and open": func(t *rapid.T) {
				require.NoError(t, s.Seal())
				m.synced = len(m.batches)
				o := OpenOptions{Clean: true, NextOffset: s.NextOffset(), Size: s.Size()}
				require.NoError(t, s.Close())
				reopen(o)
			},
			"close and open": func(t *rapid.T) {
				require.NoError(t, s.Close())
				reopen(OpenOptions{Clean: true, NextOffset: -1, Size: -1})
			},
			"kill": func(t *rapid.T) {
				fsys = fsys.Kill()
				require.NoError(t, s.Close())
				reopen(OpenOptions{})
				_, err := s.Recover(RecoverOptions{SameBoot: true})
				require.NoError(t, err)
			},
			"power cut": func(t *rapid.T) {
				require.NoError(t, s.Sync()) // otherwise truncated bytes may be there again
				require.NoError(t, fsys.SyncDir(testDir))
				m.synced = len(m.batches)
				fsys = fsys.Crash(rapid.Uint64().Draw(t, "seed"))
				require.NoError(t, s.Close())
				reopen(OpenOptions{})
				_, err := s.Recover(RecoverOptions{RecoveryPoint: m.end()})
				require.NoError(t, err)
			},
			"": func(t *rapid.T) { m.require(t, s) },
		})
		require.NoError(t, s.Close())
	})
}

func (m *model) end() int64 {
	if len(m.infos) == 0 {
		return 0
	}
	return m.infos[len(m.infos)-1].LastOffset + 1
}

func (m *model) require(t *rapid.T, s *Segment) {
	require.Equal(t, m.end(), s.NextOffset())
	require.EqualValues(t, len(m.bytes(0)), s.Size())
	newest := timestampAt{-1, 0}
	for _, b := range m.infos {
		if b.MaxTimestamp > newest.ts {
			newest = timestampAt{b.MaxTimestamp, b.LastOffset}
		}
	}
	offset := rapid.Int64Range(0, m.end()).Draw(t, "offset")
	n := m.at(offset)
	got, err := readAll(s, offset, rapid.IntRange(1, 2000).Draw(t, "max"))
	require.NoError(t, err)
	require.Equal(t, string(m.bytes(n)), string(got), "from %d", offset)
	pos, err := s.Locate(offset)
	require.NoError(t, err)
	require.EqualValues(t, len(m.bytes(0))-len(m.bytes(n)), pos)
	if rapid.Bool().Draw(t, "times") {
		return // a lookup of times would make the segment load them
	}
	ts, last, err := s.MaxTimestamp()
	require.NoError(t, err)
	require.Equal(t, newest, timestampAt{ts, last})
	m.requireTime(t, s, rapid.Int64Range(0, 1003).Draw(t, "time"))
}

func (m *model) requireTime(t *rapid.T, s *Segment, ts int64) {
	offset, found, ok, err := s.OffsetAt(ts, 0)
	require.NoError(t, err)
	for _, p := range m.batches {
		b, _, err := record.Parse(p)
		require.NoError(t, err)
		for r, err := range b.All() {
			require.NoError(t, err)
			if r.Timestamp.UnixMilli() >= ts {
				require.Equal(t, fmt.Sprint(r.Offset, r.Timestamp.UnixMilli(), true), fmt.Sprint(offset, found, ok))
				return
			}
		}
	}
	require.False(t, ok)
}
