package vfs

import (
	"io/fs"
	"time"
)

// memDir holds the entries of a directory, as they are and as the disk has them. Guarded by the
// tree's lock.
type memDir struct {
	live    map[string]*node
	stable  map[string]*node
	pending []*entryChange // since the last SyncDir, in order
}

func newMemDir() *memDir {
	return &memDir{live: make(map[string]*node), stable: make(map[string]*node)}
}

// edit makes name in dir mean node; nil removes it.
type edit struct {
	dir  *memDir
	name string
	node *node
}

// entryChange is a set of edits of one directory that reach the disk together.
type entryChange struct {
	seq   uint64
	edits []edit
	// after must be on the disk if this one is: the new name of a file moved here from another
	// directory.
	after *entryChange
	done  bool // is on the disk
}

// changeLocked makes a change of one directory.
func (t *memTree) changeLocked(edits ...edit) *entryChange {
	dir := edits[0].dir
	c := &entryChange{seq: t.seq.Add(1), edits: edits}
	for _, e := range edits {
		e.applyTo(dir.live)
	}
	dir.pending = append(dir.pending, c)
	return c
}

func (e *edit) applyTo(entries map[string]*node) {
	if e.node == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.node
	}
}

// syncLocked moves all changes to the disk.
func (d *memDir) syncLocked() {
	for _, c := range d.pending {
		if c.after != nil && !c.after.done {
			// The file must not get lost between two directories.
			c.after.edits[0].dir.syncUpToLocked(c.after)
		}
		c.applyStableLocked()
	}
	d.pending = nil
}

// syncUpToLocked moves all changes up to and including last to the disk.
func (d *memDir) syncUpToLocked(last *entryChange) {
	for i, c := range d.pending {
		c.applyStableLocked()
		if c == last {
			d.pending = d.pending[i+1:]
			return
		}
	}
}

func (c *entryChange) applyStableLocked() {
	for _, e := range c.edits {
		e.applyTo(e.dir.stable)
	}
	c.done = true
}

// memInfo is an fs.FileInfo.
type memInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

// info describes a node.
func (n *node) info(name string) memInfo {
	i := memInfo{name: name, mode: n.mode}
	if n.data != nil {
		n.data.mu.RLock()
		i.size, i.mtime = n.data.size, n.data.mtime
		n.data.mu.RUnlock()
	}
	return i
}
