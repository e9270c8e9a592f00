package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Of every replica that is one of several, its broker's directory keeps which one it is and its
// high watermark, in a file that is replaced whole every few seconds, if anything has changed, and
// at the end of an incarnation. It tells the next one two things:
//
//   - up to where records are known to be committed. A leader with fewer than min.insync.replicas
//     in sync shows them, and a follower that has to cut below that has lost something.
//   - that there was a replica. If its directory is gone although the disk is the same, somebody
//     has removed it: the replica is not one that was never written.
//
// The file names topics by id: a topic that was created again has none of the old one's marks.
// Kafka's replication-offset-checkpoint, which names them by name, is written for Kafka when the
// broker ends in order. A partition with one replica needs none of this: its high watermark is what
// its own log says.
const (
	highWatermarkFile      = "strata.watermarks"
	highWatermarkFormat    = 1
	kafkaHighWatermarkFile = "replication-offset-checkpoint"
)

// place names a replica on a broker.
type place = image.Place

// highWatermarks are those of a broker's replicas.
type highWatermarks struct {
	found map[place]int64 // by the incarnation; not changed any more
	alarm alarm.Alarm     // saveHighWatermarks, as long as there is one
	saved map[place]int64 // what the file says. Of the alarm's function, and of close behind it
}

// encodeHighWatermarks returns the file.
func encodeHighWatermarks(marks map[place]int64) []byte {
	lines := make([]string, 0, len(marks))
	for p, hw := range marks {
		lines = append(lines, fmt.Sprintf("%s %d %d\n", topic.ID(p.Topic), p.Partition, hw))
	}
	slices.Sort(lines)
	body := strings.Join(lines, "")
	return fmt.Appendf(nil, "%s%d xxhash64 %016x\n%s", metaMagic, highWatermarkFormat, xxhash.Sum64String(body), body)
}

// decodeHighWatermarks reads what encodeHighWatermarks returns.
func decodeHighWatermarks(p []byte) (map[place]int64, error) {
	head, body, _ := strings.Cut(string(p), "\n")
	var format int
	var sum uint64
	if _, err := fmt.Sscanf(head, metaMagic+"%d xxhash64 %x", &format, &sum); err != nil {
		return nil, fmt.Errorf("%w: first line of %s", ErrDamaged, highWatermarkFile)
	}
	if format != highWatermarkFormat || sum != xxhash.Sum64String(body) {
		return nil, fmt.Errorf("%w: format or checksum of %s", ErrDamaged, highWatermarkFile)
	}
	marks := map[place]int64{}
	for line := range strings.Lines(body) {
		var id string
		var p place
		var hw int64
		_, err := fmt.Sscanf(line, "%s %d %d\n", &id, &p.Partition, &hw)
		if err == nil {
			p.Topic, err = topic.ParseID(id)
		}
		if err != nil || hw < 0 {
			return nil, fmt.Errorf("%w: a line of %s", ErrDamaged, highWatermarkFile)
		}
		marks[p] = hw
	}
	return marks, nil
}

// recallHighWatermarks reads what the last incarnation has left, and returns the replicas whose
// directories are gone. What cannot be read is unknown: the replicas learn their high watermarks
// from each other.
func (n *node) recallHighWatermarks() (missing []place) {
	p, err := vfs.ReadFile(n.fs, filepath.Join(n.root, highWatermarkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var marks map[place]int64
	if err == nil {
		marks, err = decodeHighWatermarks(p)
	}
	if err != nil {
		n.logger.Warn("high watermarks of the last incarnation are not known", slog.Int("broker", int(n.id)), slog.Any("err", err))
		return nil
	}
	n.marks.found, n.marks.saved = marks, marks
	for _, at := range slices.SortedFunc(maps.Keys(marks), place.Compare) {
		tp, ok := n.metadata.hosted(at)
		if !ok {
			continue
		}
		if _, err := n.fs.Stat(filepath.Join(n.root, partitionDir(tp))); errors.Is(err, fs.ErrNotExist) {
			n.logger.Error("directory of a replica is gone: it has lost what it had", slog.String("topic", tp.Topic),
				slog.Int("partition", int(tp.Partition)), slog.Int("broker", int(n.id)))
			missing = append(missing, at)
		}
	}
	return missing
}

// hosted returns the name of a partition of several replicas that the broker has one of.
func (m nodeMetadata) hosted(at place) (tp record.TopicPartition, ok bool) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.ByID[at.Topic]
	if t == nil || at.Partition < 0 || int(at.Partition) >= len(t.Partitions) {
		return tp, false
	}
	p := &t.Partitions[at.Partition]
	return record.TopicPartition{Topic: t.Name, Partition: at.Partition}, isSeveral(p) && slices.Contains(p.Replicas, m.broker)
}

// watchHighWatermarks has the high watermarks saved by and by.
func (n *node) watchHighWatermarks() { n.marks.alarm.After(n.metadata.c.cfg.HighWatermarkInterval) }

// saveHighWatermarksOften is called every few seconds while there is a replica that is one of
// several.
func (n *node) saveHighWatermarksOften() {
	if n.ended() == nil && len(n.saveHighWatermarks()) > 0 {
		n.watchHighWatermarks()
	}
}

// saveHighWatermarks replaces the file if it is not true any more, and returns what is.
func (n *node) saveHighWatermarks() map[place]int64 {
	marks := make(map[place]int64, len(n.marks.saved))
	for at, hw := range n.marks.saved { // of those that are offline, too
		if tp, ok := n.metadata.hosted(at); ok && !n.isGone(tp) {
			marks[at] = hw
		}
	}
	for _, r := range n.all() {
		at := place{Topic: r.id, Partition: r.tp.Partition}
		if _, ok := n.metadata.hosted(at); !ok {
			continue
		}
		if p := r.partition(); p != nil {
			marks[at] = p.HighWatermark()
		}
	}
	if maps.Equal(marks, n.marks.saved) {
		return marks
	}
	if err := vfs.WriteFile(n.fs, filepath.Join(n.root, highWatermarkFile), encodeHighWatermarks(marks)); err != nil {
		if n.ended() == nil {
			n.logger.Warn("high watermarks are not saved", slog.Int("broker", int(n.id)), slog.Any("err", err))
		}
		return marks
	}
	n.marks.saved = marks
	return marks
}

// isGone reports whether a replica has no directory, and is not open.
func (n *node) isGone(tp record.TopicPartition) bool {
	if r := n.replica(tp); r != nil && r.partition() != nil {
		return false
	}
	_, err := n.fs.Stat(filepath.Join(n.root, partitionDir(tp)))
	return errors.Is(err, fs.ErrNotExist)
}

// leaveHighWatermarks saves them when all partitions are closed, for the next incarnation and for
// Kafka.
func (n *node) leaveHighWatermarks() {
	marks := n.saveHighWatermarks()
	if len(marks) == 0 {
		return
	}
	var lines []string
	for at, hw := range marks {
		if tp, ok := n.metadata.hosted(at); ok {
			lines = append(lines, fmt.Sprintf("%s %d %d\n", tp.Topic, tp.Partition, hw))
		}
	}
	slices.Sort(lines)
	text := fmt.Sprintf("0\n%d\n%s", len(lines), strings.Join(lines, ""))
	if err := vfs.WriteFile(n.fs, filepath.Join(n.root, kafkaHighWatermarkFile), []byte(text)); err != nil && !errors.Is(err, vfs.ErrEnded) {
		n.logger.Warn("high watermarks are not saved for Kafka", slog.Int("broker", int(n.id)), slog.Any("err", err))
	}
}
