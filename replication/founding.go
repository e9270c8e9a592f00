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
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A founding puts a new cluster of one broker on stable storage. Open does not wait for it: until a
// caller receives the result of a metadata change, or a producer id, nothing has been promised. So
// a crash before that may leave anything that the next open can distinguish from a cluster. Two
// chains of writes wait for the disk concurrently:
//
//	identity  the entries of the broker's directory and of its parent directory,
//	          the bytes of meta.properties                                          together
//	          the name of meta.properties
//	metadata  the entry of the metadata log's directory and that of its segment,
//	          all changes up to the first acknowledged one                          together
//
// The identity begins with Open, the metadata with the first change after it, or a moment later if
// there is none (foundAfter). When both are on stable storage the change is acknowledged (secure).
// From then on the metadata are a log without a strata.state, as a log under SyncNever that was
// synced: the next open uses all its complete batches, which include the synced ones. After the
// acknowledgement, before any other change, the log gets its state; from then on each change is
// durable (found):
//
//	state     the identity, the content of the metadata log, the bytes of its strata.state  together
//	          the name of strata.state
//
// A disk that fails before the first acknowledgement fails that call, every later change, and
// Close: the cluster has to be opened again, which founds it again.
//
// Two rules hold after a crash at any point:
//
//   - If meta.properties exists, all directories above it are durable. A directory without it has
//     them synced again, even if it has other files (prepareRoot).
//   - If the strata.state of the metadata exists, so does meta.properties, durably. A metadata log
//     without a state, without meta.properties beside it, has never been part of a cluster: it is
//     removed, and the founding begins again (removeUnfinished). With meta.properties it is opened
//     as any log: it has the first change or nothing, and the cluster continues from there with its
//     identity.
//
// An identity records whether a founding created its directory (metalog.Origin). Broker 1 is part
// of every founding, so its copy shows whether the founding has ended: if it is empty no call has
// returned a result, and the founding begins again, with the present number of brokers. An empty
// copy of a broker that was added later shows nothing: the others have all changes.
//
// A cluster of several brokers makes all identities durable before the first copy of its metadata:
// the metadata of one directory must not name another directory that does not exist yet. An
// identity that is found beside metadata without a state may have been left by a process that was
// killed before the name was durable; it is made durable first (secureIdentity).
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

// wait waits until the identity is on stable storage, and returns the error if that fails. It is
// log.Config.Beside of the metadata. A nil founding has ended.
func (f *founding) wait(string) error {
	if f == nil {
		return nil
	}
	f.wg.Wait()
	return f.err
}

// foundAfter is the time for which a new cluster without changes may be lost.
const foundAfter = 20 * time.Millisecond

// secure puts all changes of a new cluster of one broker on stable storage; those of any other
// cluster are already. The caller holds changing; it is called before a result of a change is
// returned.
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

// found ends the founding of a new cluster of one broker; that of any other cluster has ended. The
// caller holds changing.
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

// foundIdle ends the founding of a cluster without changes.
func (c *Cluster) foundIdle() {
	c.afterChange(func() error { return nil }, "new cluster is not on stable storage")
}

// prepareRoot prepares the directory of a broker that has no identity. An existing directory may
// have been created by a founding that was killed; a missing one is created by log.OpenDirectory,
// durably. With later all of that is left to a founding, except missing parent directories.
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
	return vfs.MakeDir(cl.fs, parent, 0o700)
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

// maxFirstChange is more than the bytes of a new cluster's first change. The first requested change
// may be written before the founding has ended if it is not larger.
const maxFirstChange = 4 << 10

// isSmall reports whether a change may be written before the founding has ended.
func isSmall(recs []metarecord.Record) bool {
	size := 0
	var value []byte
	for _, rec := range recs {
		value = metarecord.Append(value[:0], rec)
		size += len(value) + 16 // the overhead of a record in a batch
	}
	return size < maxFirstChange-record.HeaderSize
}

// isUnfinished reports whether the directory of a metadata log, beside which there is no
// meta.properties, was left by an interrupted founding: it has no state, and no more than the first
// change and a small one. There is no partition beside it (checkNew): partitions are created when
// the change is acknowledged. A file that is missing when it is read was removed by the next
// founding.
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

// mayBeUnfinished reports whether a founding can have left the file in a metadata log. A founding
// also closes the log when the disk fails. So the file may be any that a log writes, except a state
// and records after the first segment.
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

// removeUnfinished removes the metadata that an interrupted founding has left. The removal is
// durable before the next founding relies on it: both sync the directory.
func removeUnfinished(fsys vfs.FS, root string) error {
	return fsys.RemoveAll(filepath.Join(root, topic.MetadataTopic+"-0"))
}
