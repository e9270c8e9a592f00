package log

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestCleanerOffsetIsKeptInKafkasFormat(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	for dir, want := range map[string]string{"/my-topic-3": "0\n1\nmy-topic 3 42\n", "/audit": "0\n1\naudit 0 42\n", "/some-name": "0\n1\nsome-name 0 42\n"} {
		require.NoError(t, fsys.MkdirAll(dir, 0o755))
		offset, err := readCleanerOffset(fsys, dir)
		require.NoError(t, err)
		require.EqualValues(t, -1, offset, "none yet")
		require.NoError(t, lowerCleanerOffset(fsys, dir, 5))
		require.NoError(t, writeCleanerOffset(fsys, dir, 42))
		p, err := vfs.ReadFile(fsys, dir+"/"+cleanerFile)
		require.NoError(t, err)
		require.Equal(t, want, string(p))
		require.NoError(t, lowerCleanerOffset(fsys, dir, 50))
		offset, err = readCleanerOffset(fsys, dir)
		require.NoError(t, err)
		require.EqualValues(t, 42, offset)
		require.NoError(t, lowerCleanerOffset(fsys, dir, 7))
		offset, err = readCleanerOffset(fsys, dir)
		require.NoError(t, err)
		require.EqualValues(t, 7, offset)
	}
}

func TestCleanerOffsetThatCannotBeReadIsNone(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	for _, text := range []string{"", "0\n", "0\n0\n", "1\n1\nt 0 5\n", "0\n2\nt 0 5\nt 1 5\n", "0\n1\nt 0 x\n", "0\n1\nt 0 -5\n", "0\n1\n\n"} {
		require.NoError(t, vfs.WriteFile(fsys, "/"+cleanerFile, []byte(text)))
		offset, err := readCleanerOffset(fsys, "/")
		require.NoError(t, err)
		require.EqualValues(t, -1, offset, text)
	}
}

// The checkpoint is a hint. With any content, a compaction still runs and no key loses its last
// value.
func TestCompactionGoesOnWithADamagedCleanerOffset(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	l := openClean(t, fsys, compacting)
	for _, kv := range [][]string{{"a=1", "b=1"}, {"a=2"}, {"a=3", "c=1"}} {
		appendKV(t, l, kv...)
		require.NoError(t, l.Roll())
	}
	clean(t, l)
	appendKV(t, l, "a=4", "d=1")
	require.NoError(t, l.Roll())
	appendKV(t, l, "active=1")
	require.NoError(t, l.Close())
	name := bedDir + "/" + cleanerFile
	good, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	require.Contains(t, string(good), " 5\n")

	table := map[string]string{"a": "4", "b": "1", "c": "1", "d": "1", "active": "1"}
	compacted := func(what string, content []byte) string {
		disk := fsys.Kill()
		require.NoError(t, vfs.WriteFile(disk, name, content))
		l := openClean(t, disk, compacting)
		clean(t, l)
		dump := logDump(t, l)
		require.Equal(t, table, lastValues(dump), what)
		require.NoError(t, l.Close())
		return dump
	}
	whole := "1:b=1 4:c=1 5:a=4 6:d=1 7:active=1"
	require.Equal(t, whole, compacted("as it was", good))
	for _, text := range []string{
		"", "\x00\x00\x00\x00", "garbage", string(good[:3]), string(good[:len(good)-1]), strings.Repeat(string(good), 2),
		"0\n1\nlog 0 -5\n", "0\n1\nlog 0 1000\n", "0\n1\nlog 0 9223372036854775807\n", "0\n1\nlog 0 99999999999999999999\n",
	} {
		require.Equal(t, whole, compacted(text, []byte(text)), "%q is no offset of the log", text)
	}
	for i := range good {
		for bit := range 8 {
			flipped := slices.Clone(good)
			flipped[i] ^= 1 << bit
			compacted(string(flipped), flipped) // it may name another offset of the log: less is compacted then
		}
	}
}
