package kafkadir

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A lossy is a broker's directory "kafka" with two topics, "orders" and the compacted "latest".
// Each has four segments of 3 records.
type lossy struct {
	*testing.T
	disk *vfs.MemFS
}

func newLossy(t *testing.T) lossy {
	t.Helper()
	disk := vfs.Mem()
	c := open(t, disk, "data")
	began := time.Now().Add(-time.Hour)
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for name, policy := range map[string]string{"orders": "delete", "latest": "compact"} {
		cfg := topic.Config{Properties: map[string]string{"segment.ms": "60000", "index.interval.bytes": "0", "retention.ms": "-1", "cleanup.policy": policy}}
		require.NoError(t, c.CreateTopic(t.Context(), name, cfg))
		for i := range 12 {
			r := record.String(name, fmt.Sprint("key", i), "value")
			r.Timestamp = began.Add(time.Duration(i/3)*10*time.Minute + time.Duration(i)*time.Second)
			_, err := p.Send(t.Context(), r)
			require.NoError(t, err)
		}
	}
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	_, err = Export(t.Context(), ExportConfig{Dir: "data", To: "kafka", FS: disk})
	require.NoError(t, err)
	return lossy{t, disk}
}

// segmentPath is the path of a segment of orders, without the suffix of its files.
func segmentPath(n int) string { return fmt.Sprintf("kafka/orders-0/%020d", 3*n) }

func (l lossy) remove(paths ...string) {
	l.Helper()
	for _, path := range paths {
		require.NoError(l, l.disk.Remove(path))
	}
}

// removeAll removes all files of a segment that a broker needs.
func (l lossy) removeAll(stem string) {
	l.Helper()
	l.remove(stem+".log", stem+".index", stem+".timeindex")
}

func (l lossy) write(path, text string) { write(l.T, l.disk, path, text) }

// kill makes it the directory of a broker that was killed before it synced the last segment.
func (l lossy) kill() {
	l.Helper()
	l.remove("kafka/" + cleanShutdownFile)
	l.write("kafka/"+recoveryPointFile, "0\n1\norders 0 9\n")
}

// A missing part of a log is an error that names a file, or a gap in the report.
func TestMissingPartsOfALogAreNamedOrTold(t *testing.T) {
	dir, gap := "kafka/orders-0", func(first, end int64) *Gap {
		return &Gap{TopicPartition: record.TopicPartition{Topic: "orders"}, First: first, End: end}
	}
	noOffsets := "0\n0\n"
	for name, c := range map[string]struct {
		edit  func(l lossy)
		named string // by the error
		gap   *Gap   // in the report
	}{
		"the first segment":         {func(l lossy) { l.remove(segmentPath(0) + ".log") }, segmentPath(0) + ".log", nil},
		"one in the middle":         {func(l lossy) { l.remove(segmentPath(1) + ".log") }, segmentPath(1) + ".log", nil},
		"the last one":              {func(l lossy) { l.remove(segmentPath(3) + ".log") }, segmentPath(3) + ".log", nil},
		"the last one after a kill": {func(l lossy) { l.kill(); l.remove(segmentPath(3) + ".log") }, segmentPath(3) + ".log", nil},
		"all of them":               {func(l lossy) { l.eachSegment(func(stem string) { l.remove(stem + ".log") }) }, segmentPath(0) + ".log", nil},
		"all files": {func(l lossy) {
			require.NoError(l, l.disk.RemoveAll(dir))
			require.NoError(l, l.disk.MkdirAll(dir, 0o755))
		}, dir, nil},

		"the content of the last one":             {func(l lossy) { l.write(segmentPath(3)+".log", "") }, segmentPath(3) + ".log", nil},
		"the content of one in the middle":        {func(l lossy) { l.write(segmentPath(1)+".log", "") }, segmentPath(1) + ".log", nil},
		"the last batches of one in the middle":   {func(l lossy) { l.cut(segmentPath(1)) }, segmentPath(1) + ".log", nil},
		"the last batches, a compacted topic":     {func(l lossy) { l.cut("kafka/latest-0/00000000000000000003") }, "kafka/latest-0/00000000000000000003.log", nil},
		"the last batches, in the time index":     {func(l lossy) { l.cut(segmentPath(1)); l.remove(segmentPath(1) + ".index") }, segmentPath(1) + ".log", nil},
		"the content of the last, after a kill":   {func(l lossy) { l.kill(); l.write(segmentPath(3)+".log", "") }, "", gap(9, 12)},
		"a segment that was synced, after a kill": {func(l lossy) { l.kill(); l.removeAll(segmentPath(3)); l.removeAll(segmentPath(2)) }, segmentPath(1) + ".log", nil},

		"the last one and its indexes": {func(l lossy) { l.removeAll(segmentPath(3)) }, segmentPath(2) + ".log", nil},
		"and the recovery points": {func(l lossy) {
			l.removeAll(segmentPath(3))
			l.write("kafka/"+recoveryPointFile, noOffsets)
		}, segmentPath(2) + ".log", nil},
		"and the high watermarks": {func(l lossy) {
			l.removeAll(segmentPath(3))
			l.write("kafka/"+recoveryPointFile, noOffsets)
			l.write("kafka/"+highWatermarkFile, noOffsets)
		}, segmentPath(2) + ".log", nil},
		"of which only the recovery points tell": {func(l lossy) {
			l.removeAll(segmentPath(3))
			l.remove(dir+"/00000000000000000012.snapshot", segmentPath(3)+".snapshot")
			l.write("kafka/"+highWatermarkFile, noOffsets)
		}, segmentPath(2) + ".log", nil},
		"what nothing tells of": {func(l lossy) {
			l.removeAll(segmentPath(3))
			l.remove(dir + "/00000000000000000012.snapshot")
			l.remove(segmentPath(3) + ".snapshot")
			l.write("kafka/"+recoveryPointFile, noOffsets)
			l.write("kafka/"+highWatermarkFile, noOffsets)
		}, "", nil},
		"the last one and its indexes, after a kill": {func(l lossy) { l.kill(); l.removeAll(segmentPath(3)) }, "", gap(9, 12)},

		"one in the middle and its indexes":       {func(l lossy) { l.removeAll(segmentPath(1)) }, "", gap(3, 6)},
		"and the topic was never compacted":       {func(l lossy) { l.removeAll(segmentPath(1)); l.write("kafka/"+cleanerFile, noOffsets) }, segmentPath(2) + ".log", nil},
		"the first one and its indexes":           {func(l lossy) { l.removeAll(segmentPath(0)) }, "", gap(0, 3)},
		"and the log begins in it":                {func(l lossy) { l.removeAll(segmentPath(0)); l.write("kafka/"+logStartFile, "0\n1\norders 0 1\n") }, segmentPath(1) + ".log", nil},
		"a segment of the metadata":               {func(l lossy) { l.metadata(2, ".log") }, l0(2, ".log"), nil},
		"the first segment of the metadata's log": {func(l lossy) { l.metadata(1, ".index") }, l0(1, ".log"), nil},
		"the end of the metadata":                 {func(l lossy) { l.metadata(2, ".snapshot") }, "kafka/" + metadataDir, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			c.edit(l)
			r, err := importOf(t, l.disk, nil)
			if c.named != "" {
				var d *DamagedError
				require.ErrorAs(t, err, &d)
				require.Equal(t, l.path(c.named), d.Path)
				return
			}
			require.NoError(t, err)
			if c.gap == nil {
				require.Empty(t, r.Gaps)
				return
			}
			require.Len(t, r.Gaps, 1)
			require.NotEmpty(t, r.Gaps[0].Reason)
			r.Gaps[0].Reason = ""
			require.Equal(t, *c.gap, r.Gaps[0])
		})
	}
}

// l0 is the name of a file of the metadata log, n offsets behind the snapshot. path resolves it.
func l0(n int, suffix string) string { return fmt.Sprintf("metadata %d%s", n, suffix) }

// path returns the path of a name that l0 returned.
func (l lossy) path(name string) string {
	l.Helper()
	var n int64
	var suffix string
	if _, err := fmt.Sscanf(name, "metadata %d%s", &n, &suffix); err != nil {
		return name
	}
	return fmt.Sprintf("kafka/%s/%020d%s", metadataDir, l.metadataEnd()+n, suffix)
}

func (l lossy) metadataEnd() int64 {
	l.Helper()
	for path := range files(l.T, l.disk, "kafka/"+metadataDir) {
		if id, ok := snapshotID(filepath.Base(path)); ok {
			return id[0]
		}
	}
	l.Fatal("there is no snapshot")
	return 0
}

// metadata adds a segment with one batch of one offset behind the snapshot. It also adds an empty
// file n offsets behind the snapshot.
func (l lossy) metadata(n int64, suffix string) {
	l.Helper()
	end := l.metadataEnd()
	var b record.Builder
	b.SetBaseOffset(end)
	b.AppendKV(1, nil, metarecord.Append(nil, &metarecord.FeatureLevel{Name: "metadata.version", Level: 25}), nil)
	p, err := b.Build(record.None)
	require.NoError(l, err)
	l.write(fmt.Sprintf("kafka/%s/%020d.log", metadataDir, end), string(p))
	l.write(fmt.Sprintf("kafka/%s/%020d%s", metadataDir, end+n, suffix), "")
}

func (l lossy) eachSegment(do func(stem string)) {
	for n := range 4 {
		do(segmentPath(n))
	}
}

// cut removes all batches of a segment except the first.
func (l lossy) cut(stem string) {
	l.Helper()
	p, err := vfs.ReadFile(l.disk, stem+".log")
	require.NoError(l, err)
	_, n, err := record.Parse(p)
	require.NoError(l, err)
	require.Less(l, n, len(p))
	l.write(stem+".log", string(p[:n]))
}

// Files that a broker leaves in normal operation, or when it is killed meanwhile, are neither
// refused nor reported.
func TestWhatIsDeletedOrCompactedInOrderIsNotMissed(t *testing.T) {
	for name, edit := range map[string]func(l lossy){
		"all is there":  func(lossy) {},
		"after a kill":  func(l lossy) { l.kill() },
		"no checkpoint": func(l lossy) { l.remove("kafka/"+recoveryPointFile, "kafka/"+logStartFile, "kafka/"+highWatermarkFile) },
		"retention has taken the first segments": func(l lossy) {
			l.removeAll(segmentPath(0))
			l.write("kafka/orders-0/"+epochFile, "0\n1\n0 3\n")
			l.write("kafka/"+logStartFile, "0\n1\norders 0 3\n")
		},
		"it was killed when it had, and knows an older start": func(l lossy) {
			l.kill()
			l.removeAll(segmentPath(0))
			l.write("kafka/"+logStartFile, "0\n1\norders 0 1\n")
		},
		"it was killed when it had renamed a segment": func(l lossy) {
			l.kill()
			l.write("kafka/"+logStartFile, "0\n1\norders 0 3\n")
			require.NoError(l, l.disk.Rename(segmentPath(0)+".log", segmentPath(0)+".log.deleted"))
		},
		"it was killed when it had removed a segment and renamed its indexes": func(l lossy) {
			l.kill()
			l.write("kafka/"+logStartFile, "0\n1\norders 0 3\n")
			l.removeAll(segmentPath(0))
			l.write(segmentPath(0)+".index.deleted", "")
		},
		"compaction has taken a segment":            func(l lossy) { l.removeAll("kafka/latest-0/00000000000000000003") },
		"a snapshot of an older end is still there": func(l lossy) { l.write("kafka/orders-0/00000000000000000004.snapshot", "") },
		"all was deleted": func(l lossy) {
			for n := range 4 {
				l.removeAll(segmentPath(n))
			}
			l.write("kafka/orders-0/00000000000000000012.log", "")
			l.write("kafka/orders-0/"+epochFile, "0\n0\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			edit(l)
			r, err := importOf(t, l.disk, nil)
			require.NoError(t, err)
			require.Empty(t, r.Gaps)
		})
	}
}

// A topic that was compacted before has gaps. So has a log that its broker copied from such a
// topic. The report has them.
func TestGapsOfATopicThatWasCompactedOnceAreTold(t *testing.T) {
	l := newLossy(t)
	l.remove(segmentPath(0)+".index", segmentPath(0)+".timeindex", segmentPath(1)+".index", segmentPath(1)+".timeindex")
	p, err := vfs.ReadFile(l.disk, segmentPath(0)+".log")
	require.NoError(t, err)
	_, first, err := record.Parse(p)
	require.NoError(t, err)
	_, second, err := record.Parse(p[first:])
	require.NoError(t, err)
	l.write(segmentPath(0)+".log", string(p[:first])+string(p[first+second:]))
	l.cut(segmentPath(1))
	l.write("kafka/"+cleanerFile, "0\n0\n")
	r, err := importOf(t, l.disk, nil)
	require.NoError(t, err)
	require.Len(t, r.Gaps, 1)
	require.True(t, strings.HasPrefix(r.Gaps[0].Reason, "they are missing before 00000000000000000006.log"), r.Gaps[0].Reason)
}

// The first segments of a topic with tiered storage may exist only there.
func TestTieredStorageIsTold(t *testing.T) {
	l := newLossy(t)
	l.removeAll(segmentPath(0))
	l.write("kafka/"+logStartFile, "0\n1\norders 0 1\n")
	require.NoError(t, l.disk.MkdirAll("kafka/"+tieredDir, 0o755))
	r, err := importOf(t, l.disk, nil)
	require.NoError(t, err)
	require.Equal(t, []Gap{{record.TopicPartition{Topic: "orders"}, 1, 3, "they are in tiered storage, if anywhere"}}, r.Gaps)
}
