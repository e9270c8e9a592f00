package replication

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The directory of a partition is <topic>-<partition>; the topic may contain dashes. Its file
// partition.metadata has the topic's id and the partition's number, and a directory is used for a
// partition only if they are the partition's: see partition_file.go.
//
// Like Kafka, a directory that is to be deleted is first renamed to <topic>-<partition>.<32 hex
// digits>-delete, which removes it at once and permanently. An unknown directory is renamed to
// <topic>-<partition>.<32 hex digits>-stray, which is never touched again.
const (
	partitionMetadataFile = "partition.metadata"
	deleteSuffix          = "-delete"
	straySuffix           = "-stray"
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
	return vfs.WithSuffix(name, "."+hex.EncodeToString(id[:])+suffix)
}

// isDirectory reports whether an entry of dir is a directory, or a symbolic link to one: a
// partition, or a broker, may have been moved to another disk. A link that leads nowhere is an
// error, since that disk may be away: fs.ErrNotExist.
func isDirectory(fsys vfs.FS, dir string, e fs.DirEntry) (bool, error) {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir(), nil
	}
	info, err := fsys.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir(), err
}

// createPartitionDir creates the directory of a partition, with the topic's id, in one step: under
// its final name there is never one without an id, while the process runs or when it is killed. The
// next open deletes an incomplete one.
//
// Three things must be on stable storage before anything in the directory counts as durable. They
// are synced together, when the log is synced or gets its first state:
//
//	the bytes of partition.metadata   syncTopicID, if they were not synced here
//	the directory's entry in root     the log: Directory.syncEntries
//	the entry of partition.metadata   the log syncs its directory
//
// A power failure before that can leave a directory without an id.
func createPartitionDir(fsys vfs.FS, root string, made newPartition) error {
	final := filepath.Join(root, partitionDir(made.tp))
	staging := filepath.Join(root, asideName(partitionDir(made.tp), deleteSuffix))
	if err := fsys.MkdirAll(staging, 0o700); err != nil {
		return err
	}
	err := made.write(fsys, filepath.Join(staging, partitionMetadataFile))
	if err == nil {
		err = fsys.Rename(staging, final)
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(staging))
	}
	return nil
}

// putAside renames a partition's directory, durably, and returns the new path.
func putAside(fsys vfs.FS, root, name, suffix string) (string, error) {
	to := filepath.Join(root, asideName(name, suffix))
	if err := fsys.Rename(filepath.Join(root, name), to); err != nil {
		return "", err
	}
	return to, fsys.SyncDir(root)
}

// discard deletes a partition's directory. Once it returns nil the deletion is permanent, even if
// power fails before all its files are deleted. A missing directory is no error.
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
