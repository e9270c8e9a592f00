package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// metaProperties is the identity of a broker's directory, the file meta.properties. It is Kafka's
// file, with a first line that is a comment for Kafka: it marks the directory as ours, has the
// format, and protects the rest with a checksum.
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

// decodeMeta decodes the output of encode. The error is ErrForeign, ErrNewerFormat or ErrDamaged,
// wrapped.
func decodeMeta(p []byte) (m metaProperties, err error) {
	head, body, _ := strings.Cut(string(p), "\n")
	rest, ours := strings.CutPrefix(head, metaMagic)
	if !ours {
		if strings.Contains(head, " xxhash64 ") {
			return m, fmt.Errorf("%w: first line of %s", ErrDamaged, metaPropertiesFile)
		}
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
		return m, fmt.Errorf("%w: %s has format %d, this version knows up to %d; if no later version was used, the file is damaged", ErrNewerFormat, metaPropertiesFile, format, directoryFormat)
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

// checkDirectory determines, before anything is written, whether dir can be a broker's directory.
// It returns the identity if there is one, nil if the directory is new. If dir cannot be used, the
// error is a *DirectoryError; every other error is the disk's.
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
		if errors.Is(err, fs.ErrNotExist) { // else a cluster is being founded there: its lock shows it
			return nil, notNew
		}
	}
	if err := notRegular(dir, err); err != nil {
		return nil, err
	}
	if err != nil { // the disk's: the content of the file is unknown
		return nil, fmt.Errorf("open cluster in %s: %w", dir, err)
	}
	m, err := decodeMeta(p)
	if errors.Is(err, ErrForeign) && !isKafkas(p) && hasOurFiles(fsys, dir) {
		err = fmt.Errorf("%w: %s", ErrDamaged, metaPropertiesFile)
	}
	if errors.Is(err, ErrDamaged) {
		return nil, &DirectoryError{Dir: dir, Reason: ErrDamaged, Err: err,
			Advice: "restore the file from a backup, or correct it: the other files of the directory may be whole"}
	}
	for _, reason := range []error{ErrForeign, ErrNewerFormat} {
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

// notRegular returns an error if err is of a directory, a pipe or a device in the place of a file,
// or of a link that leads nowhere.
func notRegular(dir string, err error) error {
	if !errors.Is(err, vfs.ErrNotRegular) && !errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*DirectoryError)) {
		return nil
	}
	return &DirectoryError{Dir: dir, Reason: ErrDamaged, Err: err, Advice: "put the file back in its place"}
}

// isKafkas reports whether a meta.properties may be Kafka's, which has taken the directory then.
func isKafkas(p []byte) bool {
	return strings.Contains(string(p), "\nversion=") && strings.Contains(string(p), "\ncluster.id=")
}

// hasOurFiles reports whether a directory has files that only this program writes.
func hasOurFiles(fsys vfs.FS, dir string) bool {
	for _, in := range []string{dir, filepath.Join(dir, topic.MetadataTopic+"-0")} {
		entries, err := fsys.ReadDir(in)
		if err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "strata.") }) {
			return true
		}
	}
	return false
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
		if name := e.Name(); name != ".lock" && name != reserveFile && !strings.HasSuffix(name, ".tmp") && !isCheckpoint(name) {
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
		ErrLocked:           "close the other cluster or end the other process, or use another directory",
		ErrNewerFormat:      "open it with the version that wrote it, or a later one",
		ErrDamaged:          "restore it from a backup; the partitions' own directories may be whole",
		ErrForeign:          "choose an empty directory",
		ErrUnfinished:       "remove it, and make the backup again",
		ErrMixed:            "put the directories of the brokers back to where they belong",
		ErrDiskReplaced:     "put the disk back; if it is lost, RemoveLostBroker gives up what it had, and AddBroker begins anew",
		ErrMetadataWentBack: "put the newer copy back; without it Config.AcceptMetadataLoss opens with this one, and puts directories of later topics aside (serve: --accept-metadata-loss)",
		ErrMissing:          "put it back; without it Config.AcceptMetadataLoss opens what there is (serve: --accept-metadata-loss)",
	}
	return &DirectoryError{Dir: dir, Reason: reason, Advice: advice[reason], Err: err}
}

// newMeta returns the identity of a new directory.
func newMeta(node int32, clusterID string, origin metalog.Origin) metaProperties {
	return metaProperties{clusterID, topic.NewID().String(), node, origin}
}

// store gives a new directory its identity, durably. If beside is not nil, it syncs other files,
// which are on stable storage before.
func (m *metaProperties) store(fsys vfs.FS, dir string, beside func() error) error {
	if err := vfs.WriteFileBeside(fsys, filepath.Join(dir, metaPropertiesFile), m.encode(), beside); err != nil {
		return fmt.Errorf("create %s: %w", metaPropertiesFile, err)
	}
	return nil
}
