package kafkadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Names of Kafka's files in a log directory.
const (
	metaPropertiesFile = "meta.properties"
	cleanShutdownFile  = ".kafka_cleanshutdown"
	recoveryPointFile  = "recovery-point-offset-checkpoint"
	logStartFile       = "log-start-offset-checkpoint"
	highWatermarkFile  = "replication-offset-checkpoint"
	cleanerFile        = "cleaner-offset-checkpoint"
	epochFile          = "leader-epoch-checkpoint"
	partitionFile      = "partition.metadata"
	bootstrapFile      = "bootstrap.checkpoint"
	metadataDir        = topic.MetadataTopic + "-0"
	tieredDir          = "remote-log-index-cache" // of a broker with tiered storage
)

// maxTextBytes bounds the small files that are read as a whole: a line for each of a million
// partitions.
const maxTextBytes = 256 << 20

// statFile is Stat; ok is false if there is no such file.
func statFile(fsys vfs.FS, path string) (info fs.FileInfo, ok bool, err error) {
	info, err = fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return info, err == nil, err
}

// readText returns the content of a small file; ok is false if there is none.
func readText(fsys vfs.FS, path string) (text string, ok bool, err error) {
	info, ok, err := statFile(fsys, path)
	if !ok {
		return "", false, err
	}
	if info.IsDir() || info.Size() > maxTextBytes {
		return "", false, damaged(path, "%d bytes", info.Size())
	}
	p, err := vfs.ReadFile(fsys, path)
	return string(p), err == nil, err
}

// properties are those of meta.properties.
type properties struct {
	cluster   string
	node      int32
	directory topic.ID // zero: Kafka before 3.7
}

// parseProperties reads meta.properties as Kafka writes it, in both of its versions.
func parseProperties(path, text string) (p properties, err error) {
	if strings.HasPrefix(text, "#strata ") {
		return p, fmt.Errorf("%w: %s is Strata's: copy it with backup and restore", ErrForeign, path)
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		k, v, _ := strings.Cut(line, "=")
		values[strings.TrimSpace(k)] = strings.ReplaceAll(strings.TrimSpace(v), `\`, "") // it escapes = and :
	}
	id := values["node.id"]
	if id == "" {
		id = values["broker.id"] // version 0
	}
	node, err := strconv.ParseInt(id, 10, 32)
	if err != nil || node < 0 || values["cluster.id"] == "" {
		return p, damaged(path, "it names no cluster.id and node.id")
	}
	p = properties{cluster: values["cluster.id"], node: int32(node)}
	if d := values["directory.id"]; d != "" {
		if p.directory, err = topic.ParseID(d); err != nil {
			return p, damaged(path, "directory.id %q", d)
		}
	}
	return p, nil
}

// parseCheckpoint reads lines of "topic partition offset" behind a version and a count (Kafka:
// OffsetCheckpointFile). An empty file has none.
func parseCheckpoint(path, text string) (map[record.TopicPartition]int64, error) {
	offsets := map[record.TopicPartition]int64{}
	if text == "" {
		return offsets, nil
	}
	lines, err := checkpointLines(path, text)
	if err != nil {
		return nil, err
	}
	for i, line := range lines {
		f := strings.Split(line, " ")
		if len(f) != 3 {
			return nil, damaged(path, "line %d", i+3)
		}
		p, err1 := strconv.ParseInt(f[1], 10, 32)
		offset, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || p < 0 || offset < 0 {
			return nil, damaged(path, "line %d", i+3)
		}
		offsets[record.TopicPartition{Topic: f[0], Partition: int32(p)}] = offset
	}
	return offsets, nil
}

// checkpointLines returns the lines behind version and count.
func checkpointLines(path, text string) ([]string, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, damaged(path, "version or count of a checkpoint")
	}
	return lines[2:], nil
}

// parseEpochs returns the newest leader epoch of a leader-epoch-checkpoint, and the offset at which
// the oldest begins; -1 if there is none.
func parseEpochs(path, text string) (newest int32, first int64, err error) {
	if text == "" {
		return -1, -1, nil
	}
	lines, err := checkpointLines(path, text)
	if err != nil {
		return -1, -1, err
	}
	last := int64(-1)
	first = -1
	for i, line := range lines {
		epoch, start, _ := strings.Cut(line, " ")
		e, err1 := strconv.ParseInt(epoch, 10, 32)
		offset, err2 := strconv.ParseInt(start, 10, 64)
		if err1 != nil || err2 != nil || e <= last {
			return -1, -1, damaged(path, "line %d", i+3)
		}
		if last = e; i == 0 {
			first = offset
		}
	}
	return int32(last), first, nil
}

// formatCheckpoint is what parseCheckpoint reads, in the order of the lines.
func formatCheckpoint(offsets map[record.TopicPartition]int64) []byte {
	lines := make([]string, 0, len(offsets))
	for tp, offset := range offsets {
		lines = append(lines, fmt.Sprintf("%s %d %d\n", tp.Topic, tp.Partition, offset))
	}
	slices.Sort(lines)
	return []byte(fmt.Sprintf("0\n%d\n%s", len(lines), strings.Join(lines, "")))
}

// parsePartitionMetadata returns the topic's id.
func parsePartitionMetadata(path, text string) (topic.ID, error) {
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "topic_id: "); ok {
			if id, err := topic.ParseID(id); err == nil {
				return id, nil
			}
		}
	}
	return topic.ID{}, damaged(path, "it names no topic_id")
}

func formatPartitionMetadata(id topic.ID) []byte {
	return []byte("version: 0\ntopic_id: " + id.String())
}

// splitPartition takes the name of a partition's directory apart, at the last dash.
func splitPartition(name string) (tp record.TopicPartition, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || topic.ValidateName(name[:i]) != nil {
		return tp, false
	}
	p, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || p < 0 || name[i+1:] != strconv.FormatInt(p, 10) {
		return tp, false
	}
	return record.TopicPartition{Topic: name[:i], Partition: int32(p)}, true
}

// partitionName is the name of a partition's directory.
func partitionName(tp record.TopicPartition) string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// baseOf returns the offset that a file of a segment is named by.
func baseOf(name string) (base int64, suffix string, ok bool) {
	digits, suffix, _ := strings.Cut(filepath.Base(name), ".")
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, "." + suffix, err == nil && len(digits) == 20 && base >= 0
}
