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
	"github.com/stratalog/strata/record"
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
	Config     map[string]string `json:"config"` // that was set for the topic
}

const (
	copyStateFile = "strata.copy"
	copyStateHead = "#strata copy 1 "
)

func (s *copyState) topic(name string) *copiedTopic {
	for i := range s.Topics {
		if s.Topics[i].Name == name {
			return &s.Topics[i]
		}
	}
	return nil
}

// readCopyState returns the zero state if there is no file.
func readCopyState(fsys vfs.FS, dir string) (s copyState, err error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, copyStateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	head, body, _ := strings.Cut(string(p), "\n")
	if head != fmt.Sprintf("%s%016x", copyStateHead, xxhash.Sum64String(body)) {
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
	return s, nil
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
	head := fmt.Sprintf("%s%016x\n", copyStateHead, xxhash.Sum64(body))
	return vfs.WriteFile(fsys, filepath.Join(dir, copyStateFile), slices.Concat([]byte(head), body))
}

// open opens a partition of the topic. All its records are below the source's high watermark.
func (t copiedTopic) open(fsys vfs.FS, dir string, d *log.Directory, n int32, logger *slog.Logger) (*partition.Partition, error) {
	tp := record.TopicPartition{Topic: t.Name, Partition: n}
	settings, err := topic.Parse(t.Config, nil)
	if err != nil { // a later version of Kafka has more
		settings = topic.Settings{}
	}
	cfg := settings.Partition(partition.Config{Log: log.Config{Dir: d, FS: fsys, Logger: logger}, Logger: logger})
	cfg.Topic, cfg.Partition, cfg.TopicID = tp.Topic, tp.Partition, t.ID
	cfg.Log.Sync, cfg.HighWatermark = log.SyncOnAck, 1<<63-1
	return partition.Open(filepath.Join(dir, brokerDir, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition)), cfg)
}
