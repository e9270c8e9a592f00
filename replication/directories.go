package replication

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The directory of a partition is <topic>-<partition>; the topic may hold dashes. Its file
// partition.metadata names the topic's id, and a directory is taken for a partition only if that id
// is the topic's: one left behind by a deleted topic of the same name never is.
//
// Like Kafka, a directory that is to be deleted is first renamed to <topic>-<partition>.<32 hex
// digits>-delete, so that it is gone at once and for good, and one that nobody knows to
// <topic>-<partition>.<32 hex digits>-stray, which is never touched again.
const (
	partitionMetadataFile = "partition.metadata"
	deleteSuffix          = "-delete"
	straySuffix           = "-stray"
	maxDirName            = 255
)

func partitionDir(tp record.TopicPartition) string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// parsePartitionDir splits a directory's name at the last dash; ok is false if no partition can
// have it.
func parsePartitionDir(name string) (tp record.TopicPartition, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return tp, false
	}
	p, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || p < 0 || topic.ValidateName(name[:i]) != nil || name[i+1:] != strconv.FormatInt(p, 10) {
		return tp, false
	}
	return record.TopicPartition{Topic: name[:i], Partition: int32(p)}, true
}

// asideName is the name of a directory put aside, unique and short enough for any file system.
func asideName(name, suffix string) string {
	id := topic.NewID()
	tail := "." + hex.EncodeToString(id[:]) + suffix
	return name[:min(len(name), maxDirName-len(tail))] + tail
}

// readTopicID returns the topic id in a partition's directory. ok is false if there is no directory
// or it names no topic.
func readTopicID(fsys vfs.FS, dir string) (id topic.ID, ok bool, err error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, partitionMetadataFile))
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, err
	}
	for line := range strings.Lines(string(p)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "topic_id: "); found {
			id, err := topic.ParseID(text)
			return id, err == nil, nil
		}
	}
	return id, false, nil
}

// topicIDFile is what readTopicID reads.
func topicIDFile(id topic.ID) []byte { return []byte("version: 0\ntopic_id: " + id.String()) }

// writeTopicID makes the file that readTopicID reads, durably.
func writeTopicID(fsys vfs.FS, dir string, id topic.ID) error {
	return vfs.WriteFile(fsys, filepath.Join(dir, partitionMetadataFile), topicIDFile(id))
}

// createPartitionDir makes the directory of a partition, naming its topic, at once: there is never
// one under its final name that does not say whose it is, while the process lives or when it is
// killed. What a creation that was cut short leaves is deleted by the next open.
//
// Three things must be on stable storage before anything in the directory is called durable, and
// wait for the disk together, when the log is synced or gets its first state:
//
//	the bytes of partition.metadata   syncTopicID, if they were not synced here
//	the directory's entry in root     the log: Directory.syncEntries
//	the entry of partition.metadata   the log syncs its directory
//
// A power cut before that can leave a directory that does not say whose it is.
func createPartitionDir(fsys vfs.FS, root string, tp record.TopicPartition, id topicIDOf) error {
	final := filepath.Join(root, partitionDir(tp))
	staging := filepath.Join(root, asideName(partitionDir(tp), deleteSuffix))
	if err := fsys.MkdirAll(staging, 0o755); err != nil {
		return err
	}
	err := id.write(fsys, filepath.Join(staging, partitionMetadataFile))
	if err == nil {
		err = fsys.Rename(staging, final)
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(staging))
	}
	return nil
}

// topicIDOf is what a new partition's directory says of whose it is.
type topicIDOf struct {
	topic.ID
	synced bool // its bytes are written to stable storage
}

// write makes the file in a directory that nobody else knows yet, and does not sync its entry.
func (id topicIDOf) write(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(topicIDFile(id.ID), 0)
	if err == nil && id.synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncTopicID makes the bytes durable that name the topic of a partition's directory; log.Config
// says when. They are written once more: a sync after one that failed would be believed for bytes
// that the system has given up. What else has a log may have no such file.
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

// putAside renames a partition's directory, durably, and returns the new path.
func putAside(fsys vfs.FS, root, name, suffix string) (string, error) {
	to := filepath.Join(root, asideName(name, suffix))
	if err := fsys.Rename(filepath.Join(root, name), to); err != nil {
		return "", err
	}
	return to, fsys.SyncDir(root)
}

// discard deletes a partition's directory: once it returns nil it is gone for good, even if power
// fails before all its files are deleted. It is no error if there is none.
func discard(fsys vfs.FS, root, name string) error {
	aside, err := putAside(fsys, root, name, deleteSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete directory %s: %w", name, err)
	}
	return fsys.RemoveAll(aside)
}
