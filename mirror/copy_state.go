package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// copyState describes the source of a copy, in the file strata.copy: one line with a hash of the
// rest, which is JSON. It is replaced durably before a partition is created.
type copyState struct {
	ClusterID string        `json:"cluster_id"` // "": the cluster has none
	Topics    []copiedTopic `json:"topics"`
}

// A copiedTopic is a topic of the source.
type copiedTopic struct {
	Name       string            `json:"name"`
	ID         topic.ID          `json:"-"`
	Text       string            `json:"id"` // ID; "": the cluster has no topic ids
	Partitions int               `json:"partitions"`
	Opened     int               `json:"opened"` // so many of them have a directory, durably
	Config     map[string]string `json:"config"` // that was set for the topic
}

const (
	copyStateFile = replication.CopyFile
	copyStateHead = "#strata copy "
	copyFormat    = "1 "
)

// clone returns a copy whose topics can be changed.
func (s *copyState) clone() copyState {
	return copyState{ClusterID: s.ClusterID, Topics: slices.Clone(s.Topics)}
}

func (s *copyState) topic(name string) *copiedTopic {
	for i := range s.Topics {
		if s.Topics[i].Name == name {
			return &s.Topics[i]
		}
	}
	return nil
}

// readCopyState reads the file, and checks that the directories are there. The error matches
// fs.ErrNotExist if there is no file.
func readCopyState(fsys vfs.FS, dir string) (s copyState, err error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, copyStateFile))
	if err != nil {
		return s, err
	}
	head, body, _ := strings.Cut(string(p), "\n")
	if rest, ok := strings.CutPrefix(head, copyStateHead); ok && len(rest) > 2 && !strings.HasPrefix(rest, copyFormat) {
		return s, fmt.Errorf("%w: %s", replication.ErrNewerFormat, copyStateFile)
	}
	if head != fmt.Sprintf("%s%s%016x", copyStateHead, copyFormat, xxhash.Sum64String(body)) {
		return s, fmt.Errorf("%w: %s", ErrDamagedCopy, copyStateFile)
	}
	err = json.Unmarshal([]byte(body), &s)
	for i := range s.Topics {
		if t := &s.Topics[i]; err == nil && t.Text != "" {
			t.ID, err = topic.ParseID(t.Text)
		}
	}
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrDamagedCopy, copyStateFile, err)
	}
	for _, t := range s.Topics {
		for i := range t.Opened {
			name := t.dir(int32(i))
			if _, err := fsys.Stat(filepath.Join(dir, name)); err != nil {
				return s, fmt.Errorf("%w: %s is missing (put it back, or copy to a new directory): %w", ErrDamagedCopy, name, err)
			}
		}
	}
	return s, nil
}

// CheckCopy reports whether dir is a copy that is not a cluster yet. The error matches
// ErrDamagedCopy if its list of topics cannot be read or a partition has no directory. fsys nil
// means the operating system's.
func CheckCopy(fsys vfs.FS, dir string) (found bool, err error) {
	if fsys == nil {
		fsys = vfs.OS()
	}
	if _, err := fsys.Stat(filepath.Join(dir, copyStateFile)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, err := fsys.Stat(filepath.Join(dir, brokerDir, topic.MetadataTopic+"-0")); err == nil {
		return false, nil // the promotion is complete, except for that file
	}
	_, err = readCopyState(fsys, dir)
	return true, err
}

// dir is the directory of a partition, below the copy's.
func (t *copiedTopic) dir(n int32) string {
	return filepath.Join(brokerDir, fmt.Sprintf("%s-%d", t.Name, n))
}

// write replaces the file.
func (s *copyState) write(fsys vfs.FS, dir string) error {
	for i := range s.Topics {
		if t := &s.Topics[i]; !t.ID.IsZero() {
			t.Text = t.ID.String()
		}
	}
	body, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	body = append(body, '\n')
	head := fmt.Sprintf("%s%s%016x\n", copyStateHead, copyFormat, xxhash.Sum64(body))
	return vfs.WriteFile(fsys, filepath.Join(dir, copyStateFile), slices.Concat([]byte(head), body))
}

// open opens a partition of the topic. All its records are below the source's high watermark.
func (t copiedTopic) open(fsys vfs.FS, dir string, d *log.Directory, n int32, logger *slog.Logger) (*partition.Partition, error) {
	settings, err := topic.Parse(t.Config, nil)
	if err != nil { // a later version of Kafka has more
		settings = topic.Settings{}
	}
	cfg := settings.Partition(partition.Config{Log: log.Config{Dir: d, FS: fsys, Logger: logger}, Logger: logger})
	cfg.Topic, cfg.Partition, cfg.TopicID = t.Name, n, t.ID
	cfg.Log.Sync, cfg.HighWatermark = log.SyncOnAck, 1<<63-1
	return partition.Open(filepath.Join(dir, t.dir(n)), cfg)
}
