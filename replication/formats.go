package replication

import "github.com/stratalog/strata/replication/internal/image"

// Formats of a broker's directory. A cluster opens these formats and all earlier ones. A later
// directory format is rejected with ErrNewerFormat. See docs/format/metadata.md.
const (
	DirectoryFormat = directoryFormat     // of meta.properties
	MetadataLevel   = image.MetadataLevel // of the metadata log. Kafka: metadata.version
)
