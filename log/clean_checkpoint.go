package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stratalog/strata/vfs"
)

// cleanerFile holds, in the log's own directory and in Kafka's format for it, the first offset that
// no compaction has seen. It is a hint: without it the next compaction begins at the start of the
// log.
const cleanerFile = "cleaner-offset-checkpoint"

// readCleanerOffset returns -1 if there is no offset that can be read.
func readCleanerOffset(fsys vfs.FS, dir string) (int64, error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, cleanerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	lines := strings.Split(string(p), "\n")
	if len(lines) != 4 || lines[0] != "0" || lines[1] != "1" || lines[3] != "" {
		return -1, nil
	}
	offset, err := strconv.ParseInt(lines[2][strings.LastIndexByte(lines[2], ' ')+1:], 10, 64)
	if err != nil || offset < 0 {
		return -1, nil
	}
	return offset, nil
}

func writeCleanerOffset(fsys vfs.FS, dir string, offset int64) error {
	topic, partition := filepath.Base(dir), 0
	if i := strings.LastIndexByte(topic, '-'); i > 0 {
		if n, err := strconv.Atoi(topic[i+1:]); err == nil {
			topic, partition = topic[:i], n
		}
	}
	text := fmt.Sprintf("0\n1\n%s %d %d\n", topic, partition, offset)
	return vfs.WriteFile(fsys, filepath.Join(dir, cleanerFile), []byte(text))
}

// lowerCleanerOffset must be called when a log is truncated at offset: later records there have not
// been compacted.
func lowerCleanerOffset(fsys vfs.FS, dir string, offset int64) error {
	have, err := readCleanerOffset(fsys, dir)
	if err != nil || have <= offset {
		return err
	}
	return writeCleanerOffset(fsys, dir, offset)
}
