package replication

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A founding is how a new cluster of one broker gets onto stable storage. Open does not wait for
// it: until somebody is told of a change of the metadata, or given a producer id, nothing has been
// promised to anybody. So what a crash leaves before that may be anything, as long as the next open
// can tell it from a cluster. What waits for the disk, in two chains that go on side by side:
//
//	identity  the entries of the broker's directory and of the one around it,
//	          the bytes of meta.properties                                          together
//	          the name of meta.properties
//	metadata  the entry of the metadata log's directory and that of its segment,
//	          all changes up to the first that somebody is told of                  together
//
// The identity begins with Open, the metadata with the first change after it, or a moment later if
// there is none (foundAfter). When both are there the change is acknowledged (secure). From then on
// the metadata are a log without a strata.state, as a log under SyncNever that was synced: the next
// open takes all its batches that are whole, and those that were synced are. Behind the
// acknowledgement, before any other change, the log gets its state and becomes one whose every
// change is durable (found):
//
//	state     the identity, what the metadata log has, the bytes of its strata.state  together
//	          the name of strata.state
//
// A disk that fails before the first acknowledgement fails that call, and every later change, and
// Close: the cluster has to be opened again, which founds it again.
//
// Two rules hold after a crash at any point:
//
//   - Where there is meta.properties, all directories above it are durable. One that is without has
//     them synced again, whatever is in it (prepareRoot).
//   - Where there is the strata.state of the metadata, so is meta.properties, durably. A metadata
//     log without a state, beside no meta.properties, has never been part of a cluster: it is
//     removed, and the founding begins anew (removeUnfinished). With meta.properties it is opened
//     as any log: it has the first change or nothing, and the cluster goes on from there under the
//     identity that it has.
//
// An identity says whether its directory was made by a founding (metalog.Origin). Broker 1 is one
// of every founding, so its copy tells whether that has come to an end: if it is empty nobody was
// told of anything, and the founding begins anew, with as many brokers as are asked for then. A
// broker that was added later, with an empty copy, does not tell: the others have everything.
//
// A cluster of several brokers makes all identities durable before the first copy of its metadata:
// one directory must not be known to the metadata of another before it is there. One that is found
// where the metadata have no state was perhaps left by a process that was killed before its name
// was durable, and is made so first (secureIdentity).
type founding struct {
	wg  sync.WaitGroup
	err error // set when wg is done
}

// foundLater puts the identity of a new directory on stable storage; see wait.
func foundLater(cl claim, m metaProperties) *founding {
	f := &founding{}
	f.wg.Go(func() {
		f.err = m.store(cl.fs, cl.root, func() error {
			if cl.aboveSynced {
				return cl.fs.SyncDir(filepath.Dir(cl.root))
			}
			return syncAbove(cl.fs, cl.root)
		})
	})
	return f
}

// wait returns when the identity is on stable storage, or why it is not. It is log.Config.Beside of
// the metadata. A nil founding is over.
func (f *founding) wait(string) error {
	if f == nil {
		return nil
	}
	f.wg.Wait()
	return f.err
}

// foundAfter is for how long a new cluster that nobody changes may be lost.
const foundAfter = 20 * time.Millisecond

// secure puts all changes of a new cluster of one broker on stable storage; those of any other are.
// By who has changing, before anybody is told of a change.
func (c *Cluster) secure() error {
	if !c.unsecured.Load() {
		return nil
	}
	if err := c.meta.Secure(); err != nil { // with the identity: it is beside the log
		return err
	}
	c.unsecured.Store(false)
	return nil
}

// found ends the founding of a new cluster of one broker; any other's has ended. By who has
// changing.
func (c *Cluster) found() error {
	if err := c.secure(); err != nil || c.fresh == nil {
		return err
	}
	c.fresh.founding, c.fresh = nil, nil // if this fails the copy is opened again, as that of any cluster
	return c.meta.Settle()
}

// foundNow ends the founding before anything is done that outlives it, such as the directory of
// another broker.
func (c *Cluster) foundNow() error {
	if !c.unsecured.Load() {
		return nil
	}
	if err := c.enter(context.Background(), c.changing); err != nil {
		return err
	}
	defer func() { <-c.changing }()
	return c.found()
}

// foundIdle ends the founding of a cluster that nobody changes.
func (c *Cluster) foundIdle() {
	c.afterChange(func() error { return nil }, "new cluster is not on stable storage")
}

// prepareRoot sees to the directory of a broker that has no identity. One that is there was perhaps
// made by a founding that was killed, one that is not is made by log.OpenDirectory, durably. later
// leaves all that to a founding, but for directories around it that are not there.
func (cl *claim) prepareRoot(later bool) error {
	_, err := cl.fs.Stat(cl.root)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return err
	case !later && missing:
		return nil
	case !later:
		return syncAbove(cl.fs, cl.root)
	case !missing:
		return nil
	}
	parent := filepath.Dir(cl.root)
	if _, err = cl.fs.Stat(parent); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cl.aboveSynced = true
	return vfs.MakeDir(cl.fs, parent, 0o755)
}

// syncAbove makes the entries of a broker's directory and of the one around it durable. Those
// further up are: the one around it was there before, or was made with them (vfs.MakeDir).
func syncAbove(fsys vfs.FS, root string) error {
	root = filepath.Clean(root)
	parent := filepath.Dir(root)
	var wg sync.WaitGroup
	var above error
	if up := filepath.Dir(parent); up != parent {
		wg.Go(func() { above = fsys.SyncDir(up) })
	}
	var err error
	if parent != root {
		err = fsys.SyncDir(parent)
	}
	wg.Wait()
	for _, err := range []error{err, above} {
		if err != nil && !errors.Is(err, fs.ErrPermission) { // as vfs.MakeDir: an ancestor that is not ours
			return err
		}
	}
	return nil
}

// maxFirstChange is more than the bytes of a new cluster's first change. The first change that
// somebody asks for may be written before the founding is over if it is not larger.
const maxFirstChange = 4 << 10

// isSmall reports whether a change may be written before the founding is over.
func isSmall(recs []metarecord.Record) bool {
	size := 0
	var value []byte
	for _, rec := range recs {
		value = metarecord.Append(value[:0], rec)
		size += len(value) + 16 // what a batch adds to a record
	}
	return size < maxFirstChange-record.HeaderSize
}

// isUnfinished reports whether the directory of a metadata log, beside which there is no
// meta.properties, was left by a founding that was cut short: it has no state, and no more than the
// first change and a small one. There is no partition beside it (checkNew): they are made when the
// change is acknowledged. What is gone when it is looked at was removed by the next founding.
func isUnfinished(fsys vfs.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	data := segment.FileName(0, segment.LogSuffix)
	has := false
	for _, e := range entries {
		if e.IsDir() || !mayBeUnfinished(e.Name()) {
			return false, nil
		}
		has = has || e.Name() == data
	}
	if !has {
		return true, nil
	}
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, data))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if len(bytes.TrimRight(p, "\x00")) > 2*maxFirstChange {
		return false, nil
	}
	for range 2 {
		_, n, err := record.Parse(p)
		if err != nil {
			return true, nil // there is none, or a power cut took some of it
		}
		p = p[n:]
	}
	return len(bytes.TrimRight(p, "\x00")) == 0, nil
}

// mayBeUnfinished reports whether a file can be what a founding has left of a metadata log, which
// closes also where the disk fails: whatever a log writes, but its state and records behind the
// first segment.
func mayBeUnfinished(name string) bool {
	first := segment.FileName(0, "")
	switch rest, ofFirst := strings.CutPrefix(name, first); {
	case strings.HasSuffix(name, ".tmp"):
		return true
	case ofFirst:
		return rest == segment.LogSuffix || !strings.HasPrefix(rest, segment.LogSuffix)
	case strings.HasPrefix(name, "strata."):
		return !strings.HasPrefix(name, "strata.state")
	default:
		return isCheckpoint(name) // leader-epoch-checkpoint
	}
}

// removeUnfinished removes what a founding that was cut short has left of the metadata. That it is
// gone is durable before the next one relies on it: both sync the directory that it was in.
func removeUnfinished(fsys vfs.FS, root string) error {
	return fsys.RemoveAll(filepath.Join(root, topic.MetadataTopic+"-0"))
}
