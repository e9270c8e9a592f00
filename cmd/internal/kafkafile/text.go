package kafkafile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// An Epoch is a leader epoch and its start offset.
type Epoch struct {
	Epoch       int32
	StartOffset int64
}

// A PartitionOffset is an entry of a checkpoint.
type PartitionOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// ParseEpochs reads a leader-epoch-checkpoint. The error matches ErrDamaged.
func ParseEpochs(p []byte) ([]Epoch, error) {
	lines, err := checkpointLines(p)
	if err != nil {
		return nil, err
	}
	var es []Epoch
	for i, line := range lines {
		f := strings.Split(line, " ")
		if len(f) != 2 {
			return nil, damaged("line %d: %q is no epoch and offset", i+3, line)
		}
		epoch, err1 := strconv.ParseInt(f[0], 10, 32)
		start, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, damaged("line %d: %q is no epoch and offset", i+3, line)
		}
		if n := len(es); n > 0 && (es[n-1].Epoch >= int32(epoch) || es[n-1].StartOffset >= start) {
			return nil, damaged("line %d: %q does not follow the line before", i+3, line)
		}
		es = append(es, Epoch{int32(epoch), start})
	}
	return es, nil
}

// ParseOffsets reads a checkpoint of offsets, which names each partition once. The error matches
// ErrDamaged.
func ParseOffsets(p []byte) ([]PartitionOffset, error) {
	lines, err := checkpointLines(p)
	if err != nil {
		return nil, err
	}
	var os []PartitionOffset
	seen := map[string]bool{}
	for i, line := range lines {
		f := strings.Split(line, " ")
		if len(f) != 3 || f[0] == "" {
			return nil, damaged("line %d: %q is no topic, partition and offset", i+3, line)
		}
		partition, err1 := strconv.ParseInt(f[1], 10, 32)
		offset, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, damaged("line %d: %q is no topic, partition and offset", i+3, line)
		}
		if name := f[0] + " " + f[1]; seen[name] {
			return nil, damaged("line %d: duplicate %s", i+3, name)
		} else {
			seen[name] = true
		}
		os = append(os, PartitionOffset{f[0], int32(partition), offset})
	}
	return os, nil
}

// checkpointLines returns the entries of a file "VERSION\nCOUNT\nENTRY\n...". An empty file has
// none.
func checkpointLines(p []byte) ([]string, error) {
	if len(p) == 0 {
		return nil, nil
	}
	text, ended := strings.CutSuffix(string(p), "\n")
	lines := strings.Split(text, "\n")
	if lines[0] != "0" || len(lines) < 2 {
		return nil, damaged("not a checkpoint of version 0")
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 || !ended {
		return nil, damaged("%d whole entries where %q are announced", len(lines)-2, lines[1])
	}
	return lines[2:], nil
}

// ParsePartitionMetadata returns the topic id in a partition.metadata file, and the partition's
// number; -1 if there is none, as in Kafka's files. The error matches ErrDamaged.
func ParsePartitionMetadata(p []byte) (id [16]byte, number int32, err error) {
	lines := strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")
	if len(lines) < 2 || len(lines) > 3 || lines[0] != "version: 0" {
		return id, -1, damaged("not a partition.metadata file of version 0")
	}
	text, ok := strings.CutPrefix(lines[1], "topic_id: ")
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || copy(id[:], b) != len(id) || len(b) != len(id) {
		return id, -1, damaged("line 2: %q is no topic id", lines[1])
	}
	if len(lines) == 2 {
		return id, -1, nil
	}
	var sum uint64
	i := max(strings.LastIndexByte(lines[2], ' '), 0)
	_, err = fmt.Sscanf(lines[2], "#strata partition %d %x", &number, &sum)
	if err != nil || number < 0 || sum != xxhash.Sum64String(lines[2][:i]) {
		return id, -1, damaged("line 3: %q is no number of a partition with its checksum", lines[2])
	}
	return id, number, nil
}

// Properties is a meta.properties file.
type Properties struct {
	Strata                         bool // written by Strata, with a checksum that matches
	Format                         int  // of Strata's directory; 0 otherwise
	Version                        int
	ClusterID, NodeID, DirectoryID string
}

// ParseProperties reads a meta.properties file, Kafka's or Strata's. The error matches ErrDamaged.
func ParseProperties(p []byte) (m Properties, err error) {
	text := string(p)
	if head, body, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(head, "#strata ") {
		f := strings.Fields(head)
		if len(f) != 4 || f[2] != "xxhash64" {
			return m, damaged("first line %q", head)
		}
		format, err := strconv.Atoi(f[1])
		sum, err2 := strconv.ParseUint(f[3], 16, 64)
		if err != nil || err2 != nil || format < 1 {
			return m, damaged("first line %q", head)
		}
		if have := xxhash.Sum64String(body); have != sum {
			return m, damaged("checksum %016x, computed %016x", sum, have)
		}
		m.Strata, m.Format = true, format
	}
	props := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			return m, damaged("%q is no property", line)
		}
		props[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	m.ClusterID, m.DirectoryID, m.NodeID = props["cluster.id"], props["directory.id"], props["node.id"]
	if m.NodeID == "" {
		m.NodeID = props["broker.id"] // version 0
	}
	if m.Version, err = strconv.Atoi(props["version"]); err != nil || m.Version < 0 || m.Version > 1 {
		return m, damaged("version %q", props["version"])
	}
	if _, err := strconv.ParseInt(m.NodeID, 10, 32); err != nil {
		return m, damaged("node.id %q", m.NodeID)
	}
	if m.Version == 1 && m.ClusterID == "" {
		return m, damaged("no cluster.id")
	}
	return m, nil
}

// ParseCleanShutdown reads a .kafka_cleanshutdown file and returns the broker's epoch, -1 if it is
// not known. The error matches ErrDamaged.
func ParseCleanShutdown(p []byte) (brokerEpoch int64, err error) {
	var v struct {
		Version     *int   `json:"version"`
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if err := json.Unmarshal(p, &v); err != nil || v.Version == nil || v.BrokerEpoch == nil || *v.Version != 0 {
		return 0, damaged("%q is no marker of a clean shutdown", p)
	}
	return *v.BrokerEpoch, nil
}
