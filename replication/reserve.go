package replication

import (
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata/topic"
)

// A broker holds some disk space in a file of its directory, so that a full disk can heal: to
// delete records or a topic, a small file or a record of the metadata has to be written before. A
// start writes such files, too. vfs.Session.Reserve has the rules.
const (
	reserveFile  = "strata.reserve"
	reserveBytes = 4 << 20 // at most, see vfs.Session.Reserve
)

// essentialFiles begin the names of files that are small, replaced whole, and written before
// anything is deleted, or when a broker or a partition starts or is closed.
var essentialFiles = []string{
	"strata.state", "strata.provisional", "strata.epoch", "strata.suspect", "strata.watermarks", "strata.partitions", "strata.closed", metaPropertiesFile,
	"leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint",
	"replication-offset-checkpoint", ".kafka_cleanshutdown",
}

// isEssential reports whether a file may be written with the space that is held in reserve: the
// metadata, and small files. The records of topics may not.
func isEssential(name string) bool {
	dir, base := filepath.Split(name)
	if filepath.Base(dir) == topic.MetadataTopic+"-0" {
		return true
	}
	if strings.HasSuffix(strings.TrimSuffix(base, ".tmp"), ".snapshot") { // of producers: a log is closed with one
		return true
	}
	for _, begin := range essentialFiles {
		if strings.HasPrefix(base, begin) {
			return true
		}
	}
	return false
}

// holdReserve takes the broker's reserve of disk space. Without one the broker works as well, as
// long as the disk is not full.
func (n *node) holdReserve() {
	if err := n.session.Reserve(filepath.Join(n.root, reserveFile), reserveBytes, isEssential); err != nil {
		n.logger.Warn("no disk space is held in reserve", slog.Int("broker", int(n.id)), slog.Any("err", err))
	}
}
