package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A backup has the file strata.partitions in the directory of each broker, as a broker leaves it,
// so that an open of the copy notices missing records. Behind its lines the file lists the content
// of the copy, for a check without an open:
//
//	brokers <id> ...                                             brokers of the copy
//	directory <start> <end> <name>                               a log in this broker's directory
//
// The list counts until a broker has opened the copy: it appends a line about the metadata.

// A copyList is the content of a broker's directory in a backup.
type copyList struct {
	brokers []int32
	logs    []listedLog
}

// A listedLog is a log in a broker's directory, with its exact offsets.
type listedLog struct {
	name       string
	start, end int64
}

func (l copyList) encode() []byte {
	var b strings.Builder
	for _, d := range l.logs {
		b.WriteString(sealed("directory %d %d %s", d.start, d.end, d.name))
	}
	ids := ""
	for _, id := range l.brokers {
		ids += fmt.Sprintf(" %d", id)
	}
	b.WriteString(sealed("brokers%s", ids)) // last: it shows that the list is whole
	return []byte(b.String())
}

// list writes the file of a broker of the copy. Nothing changes the metadata meanwhile.
func (b *backup) list(n *node, metadata *log.Log) error {
	l := copyList{brokers: n.metadata.c.meta.Set()}
	l.logs = []listedLog{{topic.MetadataTopic + "-0", metadata.StartOffset(), metadata.EndOffset()}}
	notes := map[place]note{}
	for _, c := range b.cuts {
		if c.r.node != n {
			continue
		}
		start, end := c.cut.StartOffset(), c.cut.EndOffset()
		l.logs = append(l.logs, listedLog{partitionDir(c.r.tp), start, end})
		notes[c.r.place()] = note{start: start, end: end, epoch: c.p.LeaderEpoch(), kept: true}
	}
	p := append(encodeEvidence(n.metadata.moment(), -1, nil, notes), l.encode()...)
	return vfs.WriteFile(b.fsys, filepath.Join(b.targets[n.id].root, evidenceFile), p)
}

// CheckBackup compares a backup that was not opened since with the list that Cluster.Backup wrote
// into it, and changes nothing. It finds directories and records that are missing; it does not read
// the records. listed is false if there is no list: an earlier version wrote the backup, or a broker
// has opened it. A nil fsys means the operating system's.
//
// Errors: *DirectoryErrors, joined, with the reason ErrRecordsMissing for a partition, ErrMissing
// for a broker, and ErrDamaged for a list that is damaged or missing beside others; ErrNewerFormat;
// and errors of the file system.
func CheckBackup(fsys vfs.FS, dir string) (listed bool, err error) {
	if fsys == nil {
		fsys = vfs.OS()
	}
	ids, err := brokersIn(fsys, dir)
	if err != nil {
		return false, err
	}
	var errs []error
	var brokers, unlisted []int32
	for _, id := range ids {
		l, err := checkCopy(fsys, filepath.Join(dir, dirPrefix+strconv.Itoa(int(id))))
		if errs = append(errs, err); l == nil {
			unlisted = append(unlisted, id)
			continue
		}
		brokers = append(brokers, l.brokers...)
	}
	slices.Sort(brokers)
	for _, id := range slices.Compact(brokers) {
		root := filepath.Join(dir, dirPrefix+strconv.Itoa(int(id)))
		switch {
		case !slices.Contains(ids, id):
			errs = append(errs, incomplete(root, ErrMissing, nil))
		case slices.Contains(unlisted, id):
			errs = append(errs, incomplete(root, ErrDamaged, fmt.Errorf("%s is missing or has no list", evidenceFile)))
		}
	}
	return len(brokers) > 0, errors.Join(errs...)
}

// checkCopy compares the directory of a broker with its list; nil if there is none.
func checkCopy(fsys vfs.FS, root string) (*copyList, error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(root, evidenceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := evidence{found: map[place]note{}, metadata: moment{-1, 0}, closed: -1}
	damaged, err := e.decode(p)
	if err != nil {
		return nil, directoryError(root, ErrNewerFormat, err)
	}
	if len(e.list.logs) == 0 && len(e.list.brokers) == 0 {
		return nil, nil
	}
	var errs []error
	if damaged > 0 || len(e.list.brokers) == 0 {
		errs = append(errs, incomplete(root, ErrDamaged, fmt.Errorf("%s has damaged lines or was cut off", evidenceFile)))
	}
	for _, l := range e.list.logs {
		dir := filepath.Join(root, l.name)
		_, err := log.PlanRecovery(dir, log.Config{FS: fsys, Known: &log.Known{Start: l.start, End: l.end, Exact: true}})
		var short *log.IncompleteError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("the directory is missing; the backup had offsets %d to %d of it", l.start, l.end)
		case errors.As(err, &short):
			err = fmt.Errorf("it has offsets %d to %d, and the backup had %d to %d", short.Start, short.End, l.start, l.end)
		}
		if err != nil {
			errs = append(errs, incomplete(dir, ErrRecordsMissing, err))
		}
	}
	return &e.list, errors.Join(errs...)
}

// incomplete is the error of a directory that is not as the backup wrote it.
func incomplete(dir string, reason, err error) error {
	return &DirectoryError{Dir: dir, Reason: reason, Err: err, Advice: "copy it again from where the backup was made, or use another backup"}
}
