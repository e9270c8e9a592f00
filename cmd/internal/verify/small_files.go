package verify

import (
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/topic"
)

// metadataTopicID is the topic id of the controller's log in every cluster. Kafka:
// Uuid.METADATA_TOPIC_ID.
var metadataTopicID = [16]byte{15: 1}

// smallFiles reads the files that describe the segments, before the segments are read.
func (p *part) smallFiles(out *found) {
	if p.files["strata.state"] {
		path := p.path("strata.state")
		if b := p.small(path); b != nil {
			s, err := kafkafile.ParseState(b)
			if err != nil {
				p.damage(path, -1, "%v", err)
			} else {
				p.state = &s
				p.facts.recoveryPoint, p.facts.clean = s.RecoveryPoint, s.Clean
			}
		}
	}
	if p.files["strata.suspect"] {
		path := p.path("strata.suspect")
		p.note(path, "a sync has failed; the next open writes what may be missing once more")
		if b := p.small(path); b != nil {
			if _, err := kafkafile.ParseState(b); err != nil {
				p.damage(path, -1, "%v", err)
			}
		}
	}
	if p.files["leader-epoch-checkpoint"] {
		path := p.path("leader-epoch-checkpoint")
		if b := p.small(path); b != nil {
			es, err := kafkafile.ParseEpochs(b)
			if err != nil {
				p.damage(path, -1, "%v", err)
			}
			p.epochs = es
		}
	}
	if p.files["partition.metadata"] {
		path := p.path("partition.metadata")
		if b := p.small(path); b != nil {
			id, number, err := kafkafile.ParsePartitionMetadata(b)
			if err != nil {
				p.damage(path, -1, "%v", err)
			}
			if _, own, set, ok := kafkafile.SplitPartition(p.dir); ok && set == "" && number >= 0 && number != own {
				p.damage(path, -1, "of partition %d: the directory is another partition's", number)
			}
			out.id, out.hasID = id, err == nil
			if filepath.Base(p.dir) == topic.MetadataTopic+"-0" && err == nil && id != metadataTopicID {
				p.damage(path, -1, "not the id of the controller's log")
			}
		}
	}
	if p.files["cleaner-offset-checkpoint"] { // Strata keeps it here
		path := p.path("cleaner-offset-checkpoint")
		p.facts.compacted = yes
		if b := p.small(path); b != nil {
			if _, err := kafkafile.ParseOffsets(b); err != nil {
				p.damage(path, -1, "%v", err)
			}
		}
	}
}

// epochAt returns the epoch that leader-epoch-checkpoint has for offset; -1 if it has none.
func (p *part) epochAt(offset int64) int32 {
	i, exact := slices.BinarySearchFunc(p.epochs, offset, func(e kafkafile.Epoch, o int64) int {
		switch {
		case e.StartOffset < o:
			return -1
		case e.StartOffset > o:
			return 1
		}
		return 0
	})
	if exact {
		return p.epochs[i].Epoch
	}
	if i == 0 {
		return -1
	}
	return p.epochs[i-1].Epoch
}
