package journal

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// FuzzLoad reads any bytes as a journal: there is no panic, and each returned entry was appended
// with its checksum.
func FuzzLoad(f *testing.F) {
	fsys := testFS(f)
	j := create(f, fsys, 2048)
	for i := range 9 {
		_ = j.Append(frameOf(entry(i), entry(i+20)), nil)
		_ = j.Checkpoint()
	}
	whole, err := vfs.ReadFile(fsys, testPath)
	require.NoError(f, err)
	f.Add(whole, uint16(0), byte(0))
	f.Add(whole, uint16(headerBytes+40), byte(1))
	f.Add(whole[:headerBytes+700], uint16(0), byte(0))
	f.Add([]byte(fileMagic), uint16(3), byte(9))
	f.Fuzz(func(t *testing.T, raw []byte, at uint16, flip byte) {
		if int(at) < len(raw) {
			raw[at] ^= flip
		}
		fsys := testFS(t)
		file, err := fsys.OpenFile(testPath, os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		_, err = file.WriteAt(raw, 0)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		c, err := Load(fsys, testPath)
		if err != nil {
			require.True(t, isExpected(err), "%v", err)
			return
		}
		n := 0
		for _, e := range c.Entries {
			n += len(e.Data)
			require.GreaterOrEqual(t, e.Pos, int64(0))
		}
		require.LessOrEqual(t, n, len(raw))
	})
}

// FuzzParseEntries reads any bytes as the entries of a frame.
func FuzzParseEntries(f *testing.F) {
	f.Add(frameOf(entry(1), entry(2)).buf[frameFixed:])
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		es, err := parseEntries(nil, p)
		if err != nil {
			require.ErrorIs(t, err, errEntry)
			return
		}
		require.Equal(t, p, append([]byte{}, frameOf(es...).entries()...))
	})
}

func (f *Frame) entries() []byte {
	if f.Empty() {
		return nil
	}
	return f.buf[frameFixed:]
}

func isExpected(err error) bool {
	var damage *DamageError
	return errors.As(err, &damage) || errors.Is(err, ErrNewerFormat)
}
