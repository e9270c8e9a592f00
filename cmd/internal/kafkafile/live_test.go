package kafkafile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// A changingFile is a file that another program writes to or cuts. Each call of Size moves it to
// the next content, up to the last.
type changingFile struct {
	bytes []byte
	next  [][]byte
}

func (f *changingFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.bytes).ReadAt(p, off)
}

func (f *changingFile) Size() (int64, error) {
	if len(f.next) > 0 {
		f.bytes, f.next = f.next[0], f.next[1:]
	}
	return int64(len(f.bytes)), nil
}

// Bytes that a writer has not written yet, or is just removing, are read again before they are
// reported as damage.
func TestABatchThatIsBeingWrittenOrCutIsNoDamage(t *testing.T) {
	one, two := batch(t, 0, "one"), batch(t, 1, "two")
	whole := bytes.Join([][]byte{one, two}, nil)
	torn := bytes.Clone(whole)
	clear(torn[len(torn)-3:]) // in reserved space
	short := whole[:len(whole)-3]
	for name, c := range map[string]struct {
		versions [][]byte
		want     []int64
		damages  int
	}{
		"written into reserved space": {[][]byte{torn, torn, whole}, []int64{0, 1}, 0},
		"written at the end":          {[][]byte{short, short, whole}, []int64{0, 1}, 0},
		"cut":                         {[][]byte{torn, one}, []int64{0}, 0},
		"stays torn":                  {[][]byte{torn}, []int64{0}, 1},
		"stays short":                 {[][]byte{short}, []int64{0}, 1},
	} {
		f := &changingFile{c.versions[0], c.versions[1:]}
		var offsets []int64
		damages := 0
		_, err := ScanLog(f, int64(len(f.bytes)), Visitor{
			Batch:  func(_ int64, b *record.Batch) error { offsets = append(offsets, b.BaseOffset); return nil },
			Damage: func(Damage) error { damages++; return nil },
		})
		require.NoError(t, err, name)
		require.Equal(t, c.want, offsets, name)
		require.Equal(t, c.damages, damages, name)
	}
}

// The file was cut after its size was read.
func TestAFileThatWasCutEndsWhereItEnds(t *testing.T) {
	one, two := batch(t, 0, "one"), batch(t, 1, "two")
	var offsets []int64
	end, err := ScanLog(&changingFile{bytes: one}, int64(len(one)+len(two)), Visitor{
		Batch:  func(_ int64, b *record.Batch) error { offsets = append(offsets, b.BaseOffset); return nil },
		Damage: func(d Damage) error { t.Errorf("damage: %v", d); return nil },
	})
	require.NoError(t, err)
	require.Equal(t, []int64{0}, offsets)
	require.Equal(t, int64(len(one)), end.Pos)
}

// Batches were visited, then cut and written again with other sizes. The scan's position is now
// inside a new batch.
func TestAFileThatIsCutAndWrittenAgainHasNoDamage(t *testing.T) {
	before := batch(t, 5, "one")
	after := bytes.Join([][]byte{batch(t, 5, "longer than one"), batch(t, 6, "two"), batch(t, 7, "three")}, nil)
	f := &changingFile{bytes: before}
	var offsets []int64
	var rewritten [][2]int64
	_, err := ScanLog(f, int64(len(after)), Visitor{
		Batch: func(_ int64, b *record.Batch) error {
			offsets = append(offsets, b.BaseOffset)
			f.bytes = after
			return nil
		},
		Damage:    func(d Damage) error { t.Errorf("damage: %v", d); return nil },
		Rewritten: func(pos, next int64) error { rewritten = append(rewritten, [2]int64{pos, next}); return nil },
	})
	require.NoError(t, err)
	require.Equal(t, []int64{5, 6, 7}, offsets)
	require.Equal(t, [][2]int64{{int64(len(before)), int64(len(batch(t, 5, "longer than one")))}}, rewritten)
}
