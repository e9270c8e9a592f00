package replication

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The file partition.metadata of a partition's directory is Kafka's, with a third line of ours that
// Kafka does not read:
//
//	version: 0
//	topic_id: <topic id>
//	#strata partition <number> <xxhash64>
//
// Without the third line, which Kafka and earlier versions do not write, the directory may be any of
// the topic's partitions.

// A partitionFile is the content of the file. The zero value is of a directory without the file.
type partitionFile struct {
	id       topic.ID
	named    bool  // it has a topic id
	number   int32 // of the partition, if numbered
	numbered bool
	damaged  bool // it has a third line that is not a number
}

// isOf reports whether the file may be a partition's with that number, if the topic id is right.
func (f partitionFile) isOf(number int32) bool { return !f.numbered || f.number == number }

// partitionLine begins the line with the number.
const partitionLine = "#strata partition"

// readPartitionFile reads the file in a partition's directory. A missing directory is no error.
func readPartitionFile(fsys vfs.FS, dir string) (f partitionFile, err error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, partitionMetadataFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	lines := strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")
	for _, line := range lines {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "topic_id: "); found {
			f.id, err = topic.ParseID(text)
			f.named = err == nil
			break
		}
	}
	if len(lines) < 3 {
		return f, nil
	}
	if words, ok := unsealed(lines[2]); ok && len(words) == 3 {
		number, err := strconv.ParseInt(words[2], 10, 32)
		f.number, f.numbered = int32(number), err == nil
	}
	f.damaged = !f.numbered
	return f, nil
}

// isNearly reports whether the file is the partition's, except for one byte: no other topic has
// such an id.
func isNearly(fsys vfs.FS, dir string, id topic.ID, number int32) (bool, error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, partitionMetadataFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	want, wrong := encodePartitionFile(id, number), 0
	if without := kafkasPartitionFile(id); len(p) == len(without) {
		want = without
	}
	if err != nil || len(p) != len(want) {
		return false, err
	}
	for i := range p {
		if p[i] != want[i] {
			wrong++
		}
	}
	return wrong <= 1, nil
}

func kafkasPartitionFile(id topic.ID) []byte { return []byte("version: 0\ntopic_id: " + id.String()) }

// encodePartitionFile returns the file that readPartitionFile reads.
func encodePartitionFile(id topic.ID, number int32) []byte {
	return []byte(string(kafkasPartitionFile(id)) + "\n" + sealed(partitionLine+" %d", number))
}

// writePartitionFile makes the file that readPartitionFile reads, durably.
func writePartitionFile(fsys vfs.FS, dir string, id topic.ID, number int32) error {
	return vfs.WriteFile(fsys, filepath.Join(dir, partitionMetadataFile), encodePartitionFile(id, number))
}

// A newPartition is the partition that a directory is made for.
type newPartition struct {
	tp     record.TopicPartition
	id     topic.ID
	synced bool // the file's bytes are written to stable storage
}

// write writes the file in a directory that no other goroutine has yet, and does not sync its
// entry.
func (n newPartition) write(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodePartitionFile(n.id, n.tp.Partition), 0)
	if err == nil && n.synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncTopicID makes the bytes durable that have the topic id of a partition's directory; log.Config
// determines when. They are written again, because a sync after a failed one succeeds although the
// system has dropped the bytes. A partition without a topic id has no such file.
func (n *node) syncTopicID(dir string) error {
	name := filepath.Join(dir, partitionMetadataFile)
	data, err := vfs.ReadFile(n.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := n.fs.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
