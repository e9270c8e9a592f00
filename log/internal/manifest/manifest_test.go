package manifest

import (
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

func example() State {
	return State{
		Version: Version, Clean: true, Strict: true, Epochs: true, Start: 7, RecoveryPoint: 900, End: 1000, Size: 55,
		Incarnation: 1 << 63, JournalTag: 1<<64 - 1, Cuts: 1 << 40, Purged: 1 << 33, PurgeID: 1<<64 - 2, EpochsHash: 1<<64 - 3, Identity: 1<<64 - 4, BootID: "boot",
		Segments: []Segment{{Base: 0, Size: 10, Role: Obsolete}, {Base: 5, Size: 20}, {Base: 300, Size: 7, Role: Installing}, {Base: 400, Size: 9, Role: Aside}, {Base: 900, Size: -1}},
	}
}

func TestStateIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []State{example(), {Version: Version}, {Version: Version, Emptied: true, Start: 3},
		{Version: Version, Epochs: true, FirstOnly: true, FirstEpoch: 7, Segments: []Segment{{Base: 0, Size: -1}}}} {
		got, err := Parse(s.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, s, got)
		p := s.AppendTo([]byte("before"))
		got, err = Parse(p[len("before"):])
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

// version1 is the content of a file of version 1, as it was written before version 2.
func version1(s State) []byte {
	be := binary.BigEndian
	p := be.AppendUint32([]byte(magic), 1)
	p = be.AppendUint32(p, flagClean|flagEpochs)
	for _, v := range []int64{s.Start, s.RecoveryPoint, s.End, s.Size} {
		p = be.AppendUint64(p, uint64(v))
	}
	p = be.AppendUint16(p, uint16(len(s.BootID)))
	p = append(p, s.BootID...)
	p = be.AppendUint32(p, uint32(len(s.Segments)))
	for _, g := range s.Segments {
		p = be.AppendUint64(be.AppendUint64(p, uint64(g.Base)), uint64(g.Size))
	}
	return be.AppendUint64(p, xxhash.Sum64(p))
}

func TestVersionOneIsRead(t *testing.T) {
	t.Parallel()
	want := State{Version: 1, Clean: true, Epochs: true, Start: 1, RecoveryPoint: 2, End: 3, Size: 4, BootID: "b", Segments: []Segment{{Base: 0, Size: 9}, {Base: 2, Size: -1}}}
	got, err := Parse(version1(want))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// earlier is the content of a file of version 2 to 5, which has a shorter head. Before version 5
// segments have no hash of aborted transactions.
func earlier(s State, version uint32) []byte {
	end := map[uint32]int{2: head2, 3: head3, 4: head4, 5: head4}[version]
	all := s.AppendTo(nil)
	segments := head6 + 2 + len(s.BootID) + 4
	p := append(all[:end:end], all[head6:segments]...)
	for i := range s.Segments {
		p = append(p, all[segments+i*entry5:][:map[bool]int{true: entry5, false: entry2}[version == 5]]...)
	}
	p = append(p, all[segments+len(s.Segments)*entry5:len(all)-checksum]...)
	binary.BigEndian.PutUint32(p[len(magic):], version)
	return binary.BigEndian.AppendUint64(p, xxhash.Sum64(p))
}

func version2(s State) []byte { return earlier(s, 2) }

func TestVersionTwoIsRead(t *testing.T) {
	t.Parallel()
	want := example()
	got, err := Parse(version2(want))
	require.NoError(t, err)
	want.Version, want.Cuts, want.Purged, want.PurgeID, want.EpochsHash, want.Identity = 2, 0, 0, 0, 0, 0
	require.Equal(t, want, got)
}

func TestVersionThreeIsRead(t *testing.T) {
	t.Parallel()
	want := example()
	got, err := Parse(earlier(want, 3))
	require.NoError(t, err)
	want.Version, want.Purged, want.PurgeID, want.EpochsHash, want.Identity = 3, 0, 0, 0, 0
	require.Equal(t, want, got)
}

func TestVersionFourIsRead(t *testing.T) {
	t.Parallel()
	want := example()
	want.Segments[0].Aborted = 7
	got, err := Parse(earlier(want, 4))
	require.NoError(t, err)
	want.Version, want.EpochsHash, want.Identity, want.Segments[0].Aborted = 4, 0, 0, 0
	require.Equal(t, want, got)
}

func TestVersionFiveIsRead(t *testing.T) {
	t.Parallel()
	want := example()
	want.Segments[0].Aborted = 7
	got, err := Parse(earlier(want, 5))
	require.NoError(t, err)
	want.Version, want.EpochsHash, want.Identity = 5, 0, 0
	require.Equal(t, want, got)
}

func TestMarkIsTheSameWhereverItIsReadFrom(t *testing.T) {
	t.Parallel()
	s := example()
	files := map[string][]byte{"6": s.AppendTo(nil), "5": earlier(s, 5), "4": earlier(s, 4), "3": earlier(s, 3), "2": version2(s), "1": version1(s)}
	for name, p := range files {
		whole, err := Parse(p)
		require.NoError(t, err, name)
		require.Equal(t, whole.Mark(), ParseMark(p[:min(len(p), MarkBytes)]), name)
	}
	require.Equal(t, Mark{1 << 63, 1 << 40}, s.Mark())
	for n := range MarkBytes {
		require.NotEqual(t, s.Mark(), ParseMark(files["3"][:n]))
	}
	later := s.AppendTo(nil)
	later[len(magic)+3] = Version + 1
	require.NotEqual(t, s.Mark(), ParseMark(later))
	require.NotEqual(t, Mark{}, ParseMark(later))
}

func TestDamageIsNoticedAndALaterVersionToldFromIt(t *testing.T) {
	t.Parallel()
	s := example()
	good := s.AppendTo(nil)
	for bit := range 8 * len(good) {
		p := append([]byte(nil), good...)
		p[bit/8] ^= 1 << (bit % 8)
		_, err := Parse(p)
		require.Error(t, err, "bit %d", bit)
	}
	for n := range good {
		_, err := Parse(good[:n])
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrNewer)
	}
	good[11] = Version + 1
	_, err := Parse(good)
	require.ErrorIs(t, err, ErrNewer)
}

func TestSegmentThatTookTheNameOfAnotherBelongs(t *testing.T) {
	t.Parallel()
	s := State{}.With([]Segment{{Base: 0, Size: 5, Role: Installing}, {Base: 90, Size: -1}}, []Segment{{Base: 0, Size: 3, Role: Obsolete}, {Base: 40, Size: 4, Role: Obsolete}})
	require.Equal(t, []Segment{{Base: 0, Size: 5, Role: Installing}, {Base: 40, Size: 4, Role: Obsolete}, {Base: 90, Size: -1}}, s.Segments)
	require.Equal(t, []Segment{{Base: 0, Size: 5, Role: Installing}, {Base: 90, Size: -1}}, s.Belonging())
	seg, ok := s.Find(40)
	require.True(t, ok)
	require.Equal(t, Obsolete, seg.Role)
	_, ok = s.Find(41)
	require.False(t, ok)
}

func FuzzParse(f *testing.F) {
	s := example()
	f.Add(s.AppendTo(nil))
	f.Add(version1(example()))
	f.Add(version2(example()))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := Parse(p)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(s.Segments)*entry, len(p))
		again, err := Parse(s.AppendTo(nil))
		require.NoError(t, err)
		s.Version = Version
		require.Equal(t, s, again)
	})
}
