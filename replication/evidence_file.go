package replication

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/topic"
)

// A broker keeps a record of its replicas outside of their directories, in one file. The next
// incarnation compares the file with the directories. Without it, a directory that is missing,
// empty or short would pass for a partition that was never written: see
// docs/format/evidence.md.
//
// Each line of the file ends with the xxhash64 of the text before, and counts by itself:
//
//	#strata partitions 1         format
//	metadata <epoch> <version>   newest metadata that the broker applied
//	closed <broker epoch>        that incarnation has closed all logs
//	incarnation <id>             the directory was this incarnation's
//	directory, brokers           of a backup, see copy_list.go
//	partition <topic id> <n> <high watermark> <start> <end> <epoch> [stated] [exact] kept|made
//
// A line replaces earlier ones about the same replica or value. Lines of incarnations add up: see
// evidence_incarnation.go. A replica's first line is appended when its log is made, before the
// first append, and not synced: it survives a killed process, and ends with "made". After a power
// cut such a line proves nothing. The whole file is replaced, durably, a few seconds after a line
// or the metadata has changed, and when the incarnation ends. Then the line of a replica whose log
// is on stable storage ends with "kept". Before that it has "stated" if the log's strata.state is,
// and "exact" if the incarnation that wrote "closed" has closed the log in order, or has not opened
// it.
//
// The end of a log counts if the incarnation closed the logs. It also counts if no other replica
// has led since the line was written: nothing else cuts a log below its end on stable storage. The
// leader epoch in the line proves that: the replica led in that epoch, and the metadata has no
// other leader of a later one (image.Lead).
//
// Topics are named by id: a topic that was created again has none of the old one's lines.
const (
	evidenceFile   = "strata.partitions"
	evidenceFormat = 1

	// earlier versions had high watermarks only, of replicas that were one of several
	earlierEvidenceFile    = "strata.watermarks"
	kafkaHighWatermarkFile = "replication-offset-checkpoint"
)

// sealed returns a line of the file.
func sealed(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	return fmt.Sprintf("%s %016x\n", text, xxhash.Sum64String(text))
}

// unsealed returns the words of a line; ok is false if the hash does not match.
func unsealed(line string) (words []string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || len(line)-i != 17 {
		return nil, false
	}
	sum, err := strconv.ParseUint(line[i+1:], 16, 64)
	return strings.Split(line[:i], " "), err == nil && sum == xxhash.Sum64String(line[:i])
}

// line returns the line of a replica.
func (t note) line(at place) string {
	word := "made"
	if t.kept {
		word = "kept"
	}
	if t.exact {
		word = "exact " + word
	}
	if t.stated {
		word = "stated " + word
	}
	return sealed("partition %s %d %d %d %d %d %s", topic.ID(at.Topic), at.Partition, t.highWatermark, t.start, t.end, t.epoch, word)
}

func (m moment) line() string { return sealed("metadata %d %d", m.epoch, m.version) }

// encodeEvidence returns the file; closed is -1 unless all logs are closed.
func encodeEvidence(m moment, closed int64, incarnations []topic.ID, notes map[place]note) []byte {
	var b strings.Builder
	b.WriteString(sealed("#strata partitions %d", evidenceFormat))
	b.WriteString(m.line())
	if closed >= 0 {
		b.WriteString(sealed("closed %d", closed))
	}
	for _, id := range incarnations {
		b.WriteString(incarnationLine(id))
	}
	for _, at := range slices.SortedFunc(maps.Keys(notes), place.Compare) {
		b.WriteString(notes[at].line(at))
	}
	return []byte(b.String())
}

// decode parses the file and returns how many lines are damaged. The error is
// ErrNewerFormat.
func (e *evidence) decode(p []byte) (damaged int, err error) {
	for line := range strings.Lines(string(p)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		words, ok := unsealed(line)
		if !ok {
			damaged++
			continue
		}
		number := func(i int) (v int64) {
			if i < len(words) {
				v, err = strconv.ParseInt(words[i], 10, 64)
				ok = ok && err == nil
			} else {
				ok = false
			}
			return v
		}
		switch words[0] {
		case "#strata":
			if number(2) > evidenceFormat {
				return damaged, fmt.Errorf("%w: %s", ErrNewerFormat, evidenceFile)
			}
		case "metadata":
			if m := (moment{int32(number(1)), number(2)}); ok && e.metadata.before(m) {
				e.metadata = m
			}
			e.list = copyList{} // a broker has opened the copy
		case "directory":
			if l := (listedLog{words[len(words)-1], number(1), number(2)}); ok && filepath.IsLocal(l.name) {
				e.list.logs = append(e.list.logs, l)
			}
		case "brokers":
			for i := 1; i < len(words); i++ {
				e.list.brokers = append(e.list.brokers, int32(number(i)))
			}
		case "closed":
			e.closed = number(1)
		case "incarnation":
			id, err := topic.ParseID(words[len(words)-1])
			if ok = err == nil; ok && !slices.Contains(e.incarnations, id) {
				e.incarnations = append(e.incarnations, id)
			}
		case "partition":
			t := note{highWatermark: number(3), start: number(4), end: number(5), epoch: -1, kept: words[len(words)-1] == "kept"}
			if len(words) > 7 { // earlier versions had no epoch
				flags := words[7 : len(words)-1]
				t.epoch, t.stated, t.exact = int32(number(6)), slices.Contains(flags, "stated"), slices.Contains(flags, "exact")
			}
			at := place{Partition: int32(number(2))}
			id, err := topic.ParseID(words[min(1, len(words)-1)])
			if at.Topic = id; ok && err == nil {
				e.found[at] = t
			}
		}
		if !ok {
			damaged++
		}
	}
	return damaged, nil
}

// decodeEarlier reads the file of an earlier version: a first line with the hash of all others,
// and a line "topic-id partition high-watermark" for each replica.
func (e *evidence) decodeEarlier(p []byte) error {
	head, body, _ := strings.Cut(string(p), "\n")
	var format int
	var sum uint64
	if _, err := fmt.Sscanf(head, metaMagic+"%d xxhash64 %x", &format, &sum); err != nil || format != 1 || sum != xxhash.Sum64String(body) {
		return fmt.Errorf("%w: %s", ErrDamaged, earlierEvidenceFile)
	}
	for line := range strings.Lines(body) {
		var text string
		t, at := note{start: -1, epoch: -1, kept: true}, place{}
		_, err := fmt.Sscanf(line, "%s %d %d\n", &text, &at.Partition, &t.highWatermark)
		id, wrong := topic.ParseID(text)
		if err != nil || wrong != nil || t.highWatermark < 0 {
			return fmt.Errorf("%w: a line of %s", ErrDamaged, earlierEvidenceFile)
		}
		at.Topic = id
		e.found[at] = t
	}
	return nil
}
