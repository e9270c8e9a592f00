package kafkadir

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

// releases are the releases of Apache Kafka whose directories are in testdata.
var releases = []string{"3.9.1", "4.3.0"}

// golden returns a file system with the directories of a broker of a release of Apache Kafka.
// Directory "stopped" is from after a controlled shutdown, "killed" from after a later kill.
// testdata/README.md describes how they were made.
func golden(t *testing.T, release string) *vfs.MemFS {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "kafka-"+release+".tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	disk := vfs.Mem()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return disk
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			p, err := io.ReadAll(in)
			require.NoError(t, err)
			write(t, disk, h.Name, string(p))
		}
	}
}

// After an import our consumer reads the same records as Kafka's own consumer. The rest of the
// cluster is what Kafka's tools created.
func TestDirectoriesOfApacheKafkaAreImported(t *testing.T) {
	for _, release := range releases {
		for _, end := range []string{"stopped", "killed"} {
			t.Run(release+" "+end, func(t *testing.T) { requireImported(t, golden(t, release), end) })
		}
	}
}

// requireImported imports the directory end, and requires the content that was written there.
func requireImported(t *testing.T, disk *vfs.MemFS, end string) {
	t.Helper()
	text, err := vfs.ReadFile(disk, "stopped/orders.txt")
	require.NoError(t, err)
	require.NoError(t, disk.Remove("stopped/orders.txt"))
	before := files(t, disk, end)
	r, err := Import(t.Context(), ImportConfig{From: []string{end}, Dir: "data", FS: disk})
	require.NoError(t, err)
	require.Equal(t, before, files(t, disk, end))
	require.Equal(t, end == "stopped", r.Clean)
	require.True(t, r.Metadata)
	require.Equal(t, []string{"plain"}, retentionOff(r))
	require.Zero(t, r.Skipped["ClientQuotaRecord"])
	require.Equal(t, 1, r.Quotas)
	for _, left := range r.LeftOut { // 3.9 was stopped before it had removed the topic's files
		require.Regexp(t, "^"+end+`/gone-0\.[0-9a-f]{32}-delete: the topic was deleted$`, left)
	}
	require.Empty(t, r.Missing)
	require.Empty(t, r.Gaps)

	w := look(t, disk, "data")
	require.Contains(t, w.topics["orders"], " retention.ms=86400000 segment.bytes=1048576")
	require.NotContains(t, w.topics, "gone")
	require.True(t, strings.HasPrefix(w.logs["plain-0"], "4 to 10: "), w.logs["plain-0"])
	var sum int64
	for name, offset := range w.offsets {
		require.True(t, strings.HasPrefix(name, "readers orders-"), name)
		sum += offset
	}
	require.Equal(t, int64(40), sum)
	require.Len(t, w.quotas, 1)
	require.Contains(t, w.quotas[0], "{client-id=app}")
	require.Len(t, w.acls, 1)
	require.True(t, slices.ContainsFunc(w.acls, func(e acl.Entry) bool {
		return e.Principal == "User:alice" && e.ResourceName == "orders" && e.Operation == acl.Read && e.Permission == acl.Allow
	}))

	c := open(t, disk, "data")
	defer func() { require.NoError(t, c.Close()) }()
	var lines []string
	for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "orders"}) {
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("Partition:%d\tOffset:%d\t%s\t%s", r.Partition, r.Offset, r.Key, r.Value))
	}
	require.ElementsMatch(t, strings.Split(strings.TrimSpace(string(text)), "\n"), lines)
	require.Len(t, c.ScramUsers()["alice"], 1)
	cred := c.ScramUsers()["alice"][0]
	require.Equal(t, replication.ScramSHA512, cred.Mechanism)
	salted, err := cred.Mechanism.Salted("secret", cred.Salt, cred.Iterations)
	require.NoError(t, err)
	require.Equal(t, cred, cred.Mechanism.FromSalted(salted, cred.Salt, cred.Iterations))
}

// A snapshot made by Kafka's own format tool is read.
func TestSnapshotsOfApacheKafkaAreRead(t *testing.T) {
	for release, want := range map[string]map[string]int16{
		"3.9.1": {"metadata.version": 21, "kraft.version": 0, "transaction.version": 0},
		"4.3.0": {"metadata.version": 30, "transaction.version": 2},
	} {
		m := newMetadata()
		require.NoError(t, m.readSnapshot(golden(t, release), "stopped/"+bootstrapFile))
		for feature, level := range want {
			require.Equal(t, level, m.features[feature], "%s of %s", feature, release)
		}
	}
}

// Without a metadata log, the topics are derived from the partition directories.
func TestDirectoriesWithoutMetadataAreImported(t *testing.T) {
	disk := golden(t, "4.3.0")
	require.NoError(t, disk.RemoveAll("killed/"+metadataDir))
	_, err := Import(t.Context(), ImportConfig{From: []string{"killed"}, Dir: "data", FS: disk})
	require.NoError(t, err)
	w := look(t, disk, "data")
	require.Contains(t, w.topics["orders"], " retention.ms=-1")
	require.Contains(t, w.topics["__consumer_offsets"], " cleanup.policy=compact")
	require.Len(t, w.offsets, 3)
	require.Empty(t, w.users)

	require.NoError(t, disk.RemoveAll("killed/orders-1"))
	_, err = Import(t.Context(), ImportConfig{From: []string{"killed"}, Dir: "again", FS: disk})
	require.ErrorIs(t, err, ErrIncomplete)
}
