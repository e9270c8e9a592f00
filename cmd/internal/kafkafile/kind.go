package kafkafile

import (
	"path/filepath"
	"strconv"
	"strings"
)

// A Kind is the kind of a file, by its name.
type Kind string

// The kinds of files. Names are Kafka's.
const (
	Unknown           Kind = ""
	Log               Kind = "log"
	Index             Kind = "index"
	TimeIndex         Kind = "timeindex"
	TxnIndex          Kind = "txnindex"
	Snapshot          Kind = "snapshot"                // producer state
	MetadataSnapshot  Kind = "metadata-snapshot"       // of a KRaft controller: batches, as in a log
	EpochCheckpoint   Kind = "leader-epoch-checkpoint" // start offset of each leader epoch
	OffsetCheckpoint  Kind = "offset-checkpoint"       // an offset per partition
	PartitionMetadata Kind = "partition.metadata"      // the topic's id
	MetaProperties    Kind = "meta.properties"         // ids of the cluster, the broker and the directory
	CleanShutdown     Kind = ".kafka_cleanshutdown"    // written by a clean shutdown of a broker
	State             Kind = "strata.state"            // Strata's: the state of a log
)

// KindOf returns the kind of a file by its name. set is the suffix of a file that is not in use
// (".deleted", ".cleaned", ".swap", ".tmp", ".aside"); "" if it has none.
func KindOf(path string) (k Kind, set string) {
	name := filepath.Base(path)
	for _, s := range []string{".deleted", ".cleaned", ".swap", ".tmp", ".aside"} {
		if rest, ok := strings.CutSuffix(name, s); ok {
			name, set = rest, s
			break
		}
	}
	switch name {
	case "leader-epoch-checkpoint":
		return EpochCheckpoint, set
	case "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint":
		return OffsetCheckpoint, set
	case "partition.metadata", "meta.properties", ".kafka_cleanshutdown", "strata.state":
		return Kind(name), set
	case "strata.suspect", "strata.provisional":
		return State, set
	}
	switch ext := filepath.Ext(name); ext {
	case ".log", ".index", ".timeindex", ".txnindex", ".snapshot":
		return Kind(ext[1:]), set
	case ".checkpoint":
		return MetadataSnapshot, set
	}
	return Unknown, set
}

// BaseOffset returns the offset in the name of a segment's file or a snapshot. ok is false if the
// name is not 20 digits and a suffix.
func BaseOffset(path string) (offset int64, ok bool) {
	digits, _, _ := strings.Cut(filepath.Base(path), ".")
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && len(digits) == 20 && offset >= 0
}

// SplitPartition splits the name of a partition's directory at the last dash. set is the suffix of
// a directory that is not in use, as Kafka renames it: "-future", "-delete" or "-stray".
func SplitPartition(dir string) (topic string, partition int32, set string, ok bool) {
	name := filepath.Base(dir)
	for _, s := range []string{"-delete", "-future", "-stray"} {
		rest, cut := strings.CutSuffix(name, s)
		if i := strings.LastIndexByte(rest, '.'); cut && i > 0 {
			name, set = rest[:i], s
			break
		}
	}
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, set, set != "" // Kafka truncates long names with a suffix
	}
	n, err := strconv.ParseUint(name[i+1:], 10, 31)
	return name[:i], int32(n), set, err == nil || set != ""
}
