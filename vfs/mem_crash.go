package vfs

import (
	"cmp"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// kill returns a copy of the tree as it is.
func (t *memTree) kill() *memTree {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := &killer{nodes: make(map[*node]*node), changes: make(map[*entryChange]*entryChange)}
	c := &memTree{root: k.node(t.root), locks: make(map[*node]bool)}
	c.boot.Store(t.boot.Load())
	c.seq.Store(t.seq.Load())
	// Pages are shared from now on: both sides copy before they write.
	t.gen.Store(generations.Add(1))
	c.gen.Store(generations.Add(1))
	return c
}

// killer copies nodes, each once, whatever the number of its names.
type killer struct {
	nodes   map[*node]*node
	changes map[*entryChange]*entryChange
}

func (k *killer) node(n *node) *node {
	if n == nil {
		return nil
	}
	if c := k.nodes[n]; c != nil {
		return c
	}
	c := &node{mode: n.mode}
	k.nodes[n] = c
	if n.data != nil {
		n.data.mu.RLock()
		c.data = n.data.clone()
		n.data.mu.RUnlock()
		return c
	}
	c.dir = k.dir(n.dir)
	return c
}

func (k *killer) dir(d *memDir) *memDir {
	c := newMemDir()
	for name, n := range d.live {
		c.live[name] = k.node(n)
	}
	for name, n := range d.stable {
		c.stable[name] = k.node(n)
	}
	for _, change := range d.pending {
		copied := k.change(change)
		for i := range copied.edits {
			copied.edits[i].dir = c
		}
		c.pending = append(c.pending, copied)
	}
	return c
}

// change copies a change without the directory, which its owner fills in.
func (k *killer) change(ch *entryChange) *entryChange {
	if ch == nil {
		return nil
	}
	if c := k.changes[ch]; c != nil {
		return c
	}
	c := &entryChange{seq: ch.seq, done: ch.done}
	k.changes[ch] = c
	for _, e := range ch.edits {
		c.edits = append(c.edits, edit{name: e.name, node: k.node(e.node)})
	}
	c.after = k.change(ch.after)
	return c
}

// crash returns the tree that a power cut leaves.
func (t *memTree) crash(o CrashOptions) *memTree {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &memTree{root: t.crashedLocked(t.root, o), locks: make(map[*node]bool)}
	c.boot.Store(t.boot.Load() + 1)
	t.gen.Store(generations.Add(1))
	c.gen.Store(generations.Add(1))
	return c
}

// crashedLocked returns the copy of root and its descendants that a power cut leaves.
func (t *memTree) crashedLocked(root *node, o CrashOptions) *node {
	x := &crasher{
		CrashOptions: o, rnd: rand.New(rand.NewPCG(o.Seed, 0x7374726174612121)), nodes: make(map[*node]*node),
		entries: make(map[*memDir]map[string]*node),
	}
	x.keep = []float64{0.1, 0.5, 0.9}[x.rnd.IntN(3)]
	if n := t.seq.Load(); n > 0 {
		x.cut = t.firstUnsyncedLocked(root)
		x.cut += x.rnd.Uint64N(n - min(x.cut, n) + 2)
	}
	x.decideEntries(root)
	return x.node(root)
}

// powerCut replaces a directory by the state that a power cut leaves. An open file of it stays
// usable, but has no name any more, and no later open finds it.
func (t *memTree) powerCut(name string, o CrashOptions) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, err := t.lookupLocked(name)
	if err == nil && old.dir == nil {
		err = errNotDir
	}
	if err != nil {
		return &fs.PathError{Op: "power cut", Path: name, Err: err}
	}
	left := t.crashedLocked(old, o)
	// Pages are shared from now on: the open files and the remaining ones copy before they write.
	t.gen.Store(generations.Add(1))
	t.boot.Add(1)
	t.notes.removeBelow(string(filepath.Separator) + filepath.FromSlash(below(name)))
	if old == t.root {
		t.root = left
		return nil
	}
	dir, base, err := t.parentLocked(name)
	if err != nil {
		return err // it was found: not reached
	}
	dir.replaceLocked(base, old, left)
	return nil
}

// replaceLocked makes what means old mean left, on the disk too.
func (d *memDir) replaceLocked(base string, old, left *node) {
	d.live[base] = left
	for name, n := range d.stable {
		if n == old {
			d.stable[name] = left
		}
	}
	for _, c := range d.pending {
		for i := range c.edits {
			if c.edits[i].node == old {
				c.edits[i].node = left
			}
		}
	}
}

// crasher decides what survives. All choices come from rnd, in an order that depends on the tree
// alone.
type crasher struct {
	CrashOptions

	rnd  *rand.Rand
	keep float64 // probability that a random thing survives
	cut  uint64  // CrashOrdered: changes before this one survive

	nodes   map[*node]*node
	entries map[*memDir]map[string]*node // what directories hold afterwards
}

// survives decides about one change that is kept or lost as a whole.
func (x *crasher) survives(mode CrashMode, seq uint64) bool {
	switch mode {
	case CrashLost:
		return false
	case CrashKept:
		return true
	case CrashOrdered:
		return seq < x.cut
	}
	return x.rnd.Float64() < x.keep
}

// dirsBelow returns all directories there are or were on the disk.
func dirsBelow(root *node) []*memDir {
	var dirs []*memDir
	seen := make(map[*memDir]bool)
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || n.dir == nil || seen[n.dir] {
			return
		}
		seen[n.dir] = true
		dirs = append(dirs, n.dir)
		for _, entries := range []map[string]*node{n.dir.stable, n.dir.live} {
			for _, child := range entries {
				visit(child)
			}
		}
		for _, c := range n.dir.pending {
			for _, e := range c.edits {
				visit(e.node)
			}
		}
	}
	visit(root)
	return dirs
}

// firstUnsyncedLocked returns the number of the oldest change that is not on the disk.
func (t *memTree) firstUnsyncedLocked(root *node) uint64 {
	first := t.seq.Load()
	for _, d := range dirsBelow(root) {
		if len(d.pending) > 0 {
			first = min(first, d.pending[0].seq)
		}
		for _, n := range d.live {
			if n.data != nil {
				n.data.mu.RLock()
				if len(n.data.pending) > 0 {
					first = min(first, n.data.pending[0].seq)
				}
				n.data.mu.RUnlock()
			}
		}
	}
	return first
}

// decideEntries fills entries. Of the changes to one name only the first few survive, and a file
// moved between two directories does not vanish from both.
func (x *crasher) decideEntries(root *node) {
	var changes []*entryChange
	for _, d := range dirsBelow(root) {
		x.entries[d] = maps.Clone(d.stable)
		changes = append(changes, d.pending...)
	}
	slices.SortFunc(changes, func(a, b *entryChange) int { return cmp.Compare(a.seq, b.seq) })
	type place struct {
		dir  *memDir
		name string
	}
	blocked := make(map[place]bool)
	kept := make(map[*entryChange]bool)
	for _, c := range changes {
		keep := x.survives(x.Entries, c.seq)
		keep = keep && (c.after == nil || c.after.done || kept[c.after])
		for _, e := range c.edits {
			keep = keep && !blocked[place{e.dir, e.name}]
		}
		kept[c] = keep
		for _, e := range c.edits {
			if keep {
				e.applyTo(x.entries[e.dir])
			} else {
				blocked[place{e.dir, e.name}] = true
			}
		}
	}
}

// node returns the remains of a file or directory.
func (x *crasher) node(n *node) *node {
	if c := x.nodes[n]; c != nil {
		return c
	}
	c := &node{mode: n.mode}
	x.nodes[n] = c
	if n.data != nil {
		n.data.mu.RLock()
		c.data = x.data(n.data)
		n.data.mu.RUnlock()
		return c
	}
	c.dir = newMemDir()
	entries := x.entries[n.dir]
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		c.dir.live[name] = x.node(entries[name])
	}
	c.dir.stable = maps.Clone(c.dir.live)
	return c
}
