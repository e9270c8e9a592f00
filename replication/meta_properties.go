package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// metaProperties is the identity card of a broker's directory, the file meta.properties. It is
// Kafka's file, with a first line that Kafka takes for a comment: it says that the directory is
// ours, in which format, and seals what follows.
//
//	#strata 1 xxhash64 8b2c...            magic, format, hash of all bytes after this line
//	version=1
//	cluster.id=...                        22 characters of base64url
//	node.id=1
//	directory.id=...
//	strata.origin=founder                 or added: a metalog.Origin; not there: earlier versions'
type metaProperties struct {
	clusterID, directoryID string
	nodeID                 int32
	origin                 metalog.Origin
}

const (
	metaPropertiesFile = "meta.properties"
	metaMagic          = "#strata "
	directoryFormat    = 1
)

func (m metaProperties) encode() []byte {
	body := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", m.clusterID, m.nodeID, m.directoryID)
	if m.origin != "" {
		body += fmt.Sprintf("strata.origin=%s\n", m.origin)
	}
	return []byte(fmt.Sprintf("%s%d xxhash64 %016x\n%s", metaMagic, directoryFormat, xxhash.Sum64String(body), body))
}

// decodeMeta reads what encode writes. The error is ErrForeign, ErrNewerFormat or ErrDamaged,
// wrapped.
func decodeMeta(p []byte) (m metaProperties, err error) {
	head, body, _ := strings.Cut(string(p), "\n")
	rest, ours := strings.CutPrefix(head, metaMagic)
	if !ours {
		return m, fmt.Errorf("%w: %s was not written by this program", ErrForeign, metaPropertiesFile)
	}
	var format int
	var sum uint64
	if _, err := fmt.Sscanf(rest, "%d xxhash64 %x", &format, &sum); err != nil {
		if _, err := fmt.Sscanf(rest, "%d ", &format); err != nil || format <= directoryFormat {
			return m, fmt.Errorf("%w: first line of %s", ErrDamaged, metaPropertiesFile)
		}
	}
	if format > directoryFormat {
		return m, fmt.Errorf("%w: %d, this version knows up to %d", ErrNewerFormat, format, directoryFormat)
	}
	if format != directoryFormat || sum != xxhash.Sum64String(body) {
		return m, fmt.Errorf("%w: checksum of %s", ErrDamaged, metaPropertiesFile)
	}
	props := map[string]string{}
	for line := range strings.Lines(body) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		props[k] = v
	}
	id, err := strconv.ParseInt(props["node.id"], 10, 32)
	if err != nil || props["cluster.id"] == "" {
		return m, fmt.Errorf("%w: %s", ErrDamaged, metaPropertiesFile)
	}
	return metaProperties{props["cluster.id"], props["directory.id"], int32(id), metalog.Origin(props["strata.origin"])}, nil
}

// checkDirectory tells before anything is written whether dir can be a broker's directory. It
// returns the identity if there is one, nil if the directory is new. What speaks against the
// directory is a *DirectoryError; every other error is the disk's.
func checkDirectory(fsys vfs.FS, dir string, node int32) (*metaProperties, error) {
	if _, err := fsys.Stat(filepath.Join(dir, unfinishedFile)); err == nil {
		return nil, directoryError(dir, ErrUnfinished, nil)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open cluster in %s: %w", dir, err)
	}
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, metaPropertiesFile))
	if errors.Is(err, fs.ErrNotExist) {
		notNew := checkNew(fsys, dir)
		if notNew == nil {
			return nil, nil
		}
		p, err = vfs.ReadFile(fsys, filepath.Join(dir, metaPropertiesFile))
		if errors.Is(err, fs.ErrNotExist) { // else a cluster is being founded there: its lock will tell
			return nil, notNew
		}
	}
	if err != nil { // the disk's: what is in the file nobody knows
		return nil, fmt.Errorf("open cluster in %s: %w", dir, err)
	}
	m, err := decodeMeta(p)
	for _, reason := range []error{ErrForeign, ErrNewerFormat, ErrDamaged} {
		if errors.Is(err, reason) {
			return nil, directoryError(dir, reason, err)
		}
	}
	if m.nodeID != node {
		return nil, &DirectoryError{Dir: dir, Reason: ErrForeign, Err: fmt.Errorf("it is of broker %d, not %d", m.nodeID, node),
			Advice: "put the directories of the brokers back to where they belong"}
	}
	return &m, nil
}

// checkNew accepts a directory that is missing, empty, or was left behind when its creation was cut
// short.
func checkNew(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cluster in %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == topic.MetadataTopic+"-0" {
			switch unfinished, err := isUnfinished(fsys, filepath.Join(dir, e.Name())); {
			case err != nil:
				return fmt.Errorf("open cluster in %s: %w", dir, err)
			case !unfinished:
				return directoryError(dir, ErrDamaged, errors.New(metaPropertiesFile+" is missing"))
			}
			continue
		}
		if name := e.Name(); name != ".lock" && !strings.HasSuffix(name, ".tmp") && !isCheckpoint(name) {
			return directoryError(dir, ErrForeign, fmt.Errorf("there is %s, and no %s", name, metaPropertiesFile))
		}
	}
	return nil
}

func isCheckpoint(name string) bool {
	return strings.HasSuffix(name, "-checkpoint") || name == ".kafka_cleanshutdown" || name == "strata.closed"
}

func directoryError(dir string, reason, err error) error {
	advice := map[error]string{
		ErrLocked:       "close the other cluster or end the other process, or use another directory",
		ErrNewerFormat:  "open it with the version that wrote it, or a later one",
		ErrDamaged:      "restore it from a backup; the partitions' own directories may be whole",
		ErrForeign:      "choose an empty directory",
		ErrUnfinished:   "remove it, and make the backup again",
		ErrMixed:        "put the directories of the brokers back to where they belong",
		ErrDiskReplaced: "put the disk back; if it is lost, RemoveLostBroker gives up what it had, and AddBroker begins anew",
		ErrMissing:      "put it back; without it Config.AcceptMetadataLoss opens what there is",
	}
	return &DirectoryError{Dir: dir, Reason: reason, Advice: advice[reason], Err: err}
}

// newMeta returns the identity of a new directory.
func newMeta(node int32, clusterID string, origin metalog.Origin) metaProperties {
	return metaProperties{clusterID, topic.NewID().String(), node, origin}
}

// store gives a new directory its identity, durably. What beside syncs, if it is not nil, is on
// stable storage before.
func (m *metaProperties) store(fsys vfs.FS, dir string, beside func() error) error {
	if err := vfs.WriteFileBeside(fsys, filepath.Join(dir, metaPropertiesFile), m.encode(), beside); err != nil {
		return fmt.Errorf("create %s: %w", metaPropertiesFile, err)
	}
	return nil
}
