package partition

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata/vfs"
)

// metadataFile names the file that ties a directory to a topic, as in Kafka: two lines, the second
// without an end.
const metadataFile = "partition.metadata"

// writeMetadata creates the metadata file of dir, on stable storage, or checks the existing one.
func writeMetadata(fsys vfs.FS, dir string, id [16]byte) error {
	name := filepath.Join(dir, metadataFile)
	want := "version: 0\ntopic_id: " + base64.RawURLEncoding.EncodeToString(id[:])
	switch have, err := vfs.ReadFile(fsys, name); {
	case errors.Is(err, fs.ErrNotExist):
		return vfs.WriteFile(fsys, name, []byte(want))
	case err != nil:
		return err
	case strings.TrimSpace(string(have)) != want && !strings.HasPrefix(string(have), want+"\n"): // the owner may have added lines
		return fmt.Errorf("%w: %s has %q", ErrInconsistentTopicID, name, have)
	}
	return nil
}
