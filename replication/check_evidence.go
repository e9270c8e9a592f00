package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A broker may run in a directory that is being checked. It writes the evidence after the directory
// of a partition is there, and removes a directory after the metadata does not name it any more. So
// each check reads the evidence, then the metadata, then the directories. A finding is returned
// only if checks in a row, with pauses between them, agree on it.
const (
	evidenceChecks = 3
	evidencePause  = 20 * time.Millisecond
)

// CheckEvidence compares the directories in a cluster's directory, or in a broker's own one, with
// the metadata and with the broker's evidence of its records. It makes the decisions of an open,
// opens no log for writing, acquires no lock, and changes no file. It finds a broker's directory
// that is empty, an older copy or of another broker, metadata that are an older copy, and a
// partition's directory that is missing, empty, of another partition, or has fewer records than the
// evidence. It reads only records that an open reads. It returns nil if dir has no directory of a
// Strata broker. A nil fsys means the operating system's.
//
// A broker may run in the directory meanwhile. Evidence is written with a delay, so that records of
// the last seconds may be missing unnoticed.
//
// Errors: *DirectoryErrors, joined, with the errors of an open of that directory; errors of the
// file system; and the context's error.
func CheckEvidence(ctx context.Context, fsys vfs.FS, dir string) error {
	if fsys == nil {
		fsys = vfs.OS()
	}
	fsys = vfs.ReadOnly(fsys)
	var found []*DirectoryError
	for i := range evidenceChecks {
		k := evidenceCheck{fsys: fsys, dir: dir}
		if err := k.run(ctx); err != nil {
			return err
		}
		if i > 0 {
			k.found = slices.DeleteFunc(k.found, func(e *DirectoryError) bool {
				return !slices.ContainsFunc(found, func(before *DirectoryError) bool { return before.Dir == e.Dir && before.Reason == e.Reason })
			})
		}
		if found = k.found; len(found) == 0 {
			return nil
		}
		if i < evidenceChecks-1 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(evidencePause):
			}
		}
	}
	errs := make([]error, len(found))
	for i, e := range found {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// An evidenceCheck is one check.
type evidenceCheck struct {
	fsys  vfs.FS // read-only
	dir   string
	found []*DirectoryError
}

// add keeps a *DirectoryError as a finding, and returns any other error.
func (k *evidenceCheck) add(err error) error {
	var e *DirectoryError
	if err == nil || !errors.As(err, &e) {
		return err
	}
	k.found = append(k.found, e)
	return nil
}

func (k *evidenceCheck) run(ctx context.Context) error {
	all, err := k.locations()
	if err != nil {
		return err
	}
	c := &Cluster{cfg: Config{FS: k.fsys, Dir: k.dir}, logger: slog.New(slog.DiscardHandler), nodes: map[int32]*node{}}
	marks, empty := map[int32]string{}, map[int32]location{}
	for _, l := range all {
		n := c.newNode(l, nil)
		here, mark, err := k.begin(n)
		switch {
		case err != nil:
			if err := k.add(err); err != nil {
				return err
			}
		case here:
			c.nodes[l.id], marks[l.id] = n, mark
		default:
			empty[l.id] = l
		}
	}
	img, epoch, err := metalog.ReadNewest(places(c.nodes))
	if err != nil || img == nil { // the metadata are damaged, which a check of the files finds
		return err
	}
	c.image, c.moment = img, moment{epoch, img.Version}
	for id, l := range byid.Range(empty) {
		if _, known := img.Members[id]; known {
			k.found = append(k.found, directoryError(l.root, ErrDiskReplaced, nil).(*DirectoryError))
		}
	}
	for id, n := range byid.Range(c.nodes) {
		if err := k.broker(ctx, n, marks[id]); err != nil {
			return err
		}
	}
	return nil
}

// locations returns the locations of the brokers in the directory.
func (k *evidenceCheck) locations() ([]location, error) {
	cfg := Config{FS: k.fsys, Dir: k.dir}
	if p, err := vfs.ReadFile(k.fsys, filepath.Join(k.dir, metaPropertiesFile)); err == nil {
		m, err := decodeMeta(p)
		if err != nil {
			return nil, nil // a Kafka broker's, or damaged, which a check of the files finds
		}
		return []location{cfg.location(m.nodeID, BrokerSpec{Dir: k.dir})}, nil
	}
	ids, err := brokersIn(k.fsys, k.dir)
	if err != nil {
		return nil, err
	}
	all := make([]location, len(ids))
	for i, id := range ids {
		all[i] = cfg.location(id, BrokerSpec{})
	}
	return all, nil
}

// begin reads the identity and the evidence of a broker. here is false if its directory is empty.
func (k *evidenceCheck) begin(n *node) (here bool, mark string, err error) {
	meta, err := checkDirectory(n.fs, n.root, n.id)
	if err != nil || meta == nil {
		return false, "", err
	}
	if n.directory, err = topic.ParseID(meta.directoryID); err != nil {
		return false, "", directoryError(n.root, ErrDamaged, fmt.Errorf("%s: %w", metaPropertiesFile, err))
	}
	mark, taken, err := log.ReadNote(n.fs, n.root)
	if err != nil {
		return false, "", err
	}
	e := &n.evidence
	if e.found, e.saved, e.closed, e.metadata = map[place]note{}, map[place]note{}, -1, (moment{-1, 0}); taken {
		return true, mark, nil // a Kafka broker may have removed records by its own rules
	}
	return true, mark, n.readEvidence()
}

// broker compares a broker's directory with its evidence and the metadata.
func (k *evidenceCheck) broker(ctx context.Context, n *node, mark string) error {
	if m, known := n.metadata.member(); known && m.Directory != n.directory {
		return k.add(otherDirectory(n.location, n.directory, m))
	}
	err := n.wentBack(n.metadata.c.moment)
	if err == nil {
		err = n.refuseOldCopy()
	}
	if err == nil && n.metadata.c.image.Version == 0 {
		err = n.hasNoPartition()
	}
	if err != nil {
		return k.add(err)
	}
	if n.recall(mark); n.evidence.old {
		return k.add(n.errOldCopy())
	}
	return k.partitions(ctx, n)
}

// partitions compares the directories of a broker's partitions, as load does.
func (k *evidenceCheck) partitions(ctx context.Context, n *node) error {
	entries, err := n.fs.ReadDir(n.root)
	if err != nil {
		return err
	}
	there := map[record.TopicPartition]bool{}
	for _, e := range entries {
		tp, ok := parsePartitionDir(e.Name())
		if !ok || tp.Topic == topic.MetadataTopic {
			continue
		}
		ok, err := isDirectory(n.fs, n.root, e)
		if _, here := n.metadata.ownerOf(tp); err != nil && here {
			there[tp] = true
			if err := k.add(notRegular(filepath.Join(n.root, e.Name()), err)); err != nil {
				return err
			}
		}
		if !ok {
			continue
		}
		there[tp] = true
		if err := k.partition(ctx, n, tp); err != nil {
			return err
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(n.evidence.found), place.Compare) {
		tp, _, ok := n.metadata.hosted(at)
		if _, counts := n.foundNote(at); ok && counts && !there[tp] {
			if err := k.add(n.errMissing(at, tp)); err != nil {
				return err
			}
		}
	}
	return nil
}

// partition compares the directory of a partition, as loadFound does.
func (k *evidenceCheck) partition(ctx context.Context, n *node, tp record.TopicPartition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := n.judge(tp)
	switch {
	case err != nil:
		return k.unserved(n, tp, err)
	case v.doubt != nil:
		return k.unserved(n, tp, v.doubt)
	case v.aside != "":
		return nil
	}
	r := &replica{node: n, tp: tp, id: v.id}
	a, ok := n.metadata.assignment(tp, v.id)
	if !ok {
		return nil
	}
	cfg := n.configOfFound(r, a, v.named)
	if cfg.Log.Known == nil {
		return nil
	}
	dir := filepath.Join(n.root, partitionDir(tp))
	_, err = log.PlanRecovery(dir, cfg.Log)
	return k.unserved(n, tp, errOtherLog(dir, err))
}

// unserved records the error of a partition that an open would not serve. Damage other than
// missing records is left to a check of the files, and so is a directory that was removed in the
// meantime.
func (k *evidenceCheck) unserved(n *node, tp record.TopicPartition, err error) error {
	dir := filepath.Join(n.root, partitionDir(tp))
	var short *log.IncompleteError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, new(*DirectoryError)):
		return k.add(err)
	case errors.As(err, &short):
		return k.add(n.errShort(dir, tp, short))
	}
	return k.add(notRegular(dir, err))
}

// errShort is the error of a partition whose directory has fewer records than the evidence.
func (n *node) errShort(dir string, tp record.TopicPartition, e *log.IncompleteError) error {
	cause := fmt.Errorf("it has offsets %d to %d, and there were %d to %d", e.Start, e.End, max(e.Known.Start, 0), e.Known.End)
	switch {
	case e.Stateless:
		cause = errors.New("it has no strata.state, and there was one")
	case e.Start == e.End:
		cause = errors.New("it has no records, and there were some")
	}
	id, _ := n.metadata.ownerOf(tp)
	return &DirectoryError{Dir: dir, Reason: ErrRecordsMissing, Err: cause, Advice: n.missingAdvice(place{Topic: id, Partition: tp.Partition})}
}
