package log

import (
	"github.com/stratalog/strata/log/internal/journal"
	"github.com/stratalog/strata/log/internal/manifest"
)

// Formats of the files that only Strata has. A log opens these formats and all earlier ones. A
// later format is rejected with ErrNewerFormat. See docs/format/directory.md.
const (
	StateFormat   = manifest.Version // of strata.state, in each log's directory
	JournalFormat = journal.Version  // of strata.journal, in a directory of logs
)
