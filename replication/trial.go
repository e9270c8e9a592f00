package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// compareDisks has the broker fenced if the disk of another one that could lead takes and gives
// what its own does not. If none does, as when all are on one disk that is full, nobody is: all go
// on when it does. The disks may hang, so it does not wait.
func (n *node) compareDisks(r *replica, cause error) {
	if !n.comparing.CompareAndSwap(false, true) {
		return
	}
	c := n.metadata.c
	started := c.run(func() {
		defer n.comparing.Store(false)
		serving := c.serving()
		for _, id := range n.mayLead(r) {
			if other := serving[id]; other != nil && other.tryDisk() == nil {
				c.fence(n.id, fmt.Errorf("%w: %w", errStruggles, cause))
				return
			}
		}
	})
	if !started {
		n.comparing.Store(false)
	}
}

const (
	// trialFile is in a broker's directory while its disk is tried.
	trialFile = "strata.trial.tmp"
	// trialBytes is how much is written to it.
	trialBytes = 64 << 10
)

// tryDisk writes a file, reads it and removes it.
func (n *node) tryDisk() (err error) {
	name := filepath.Join(n.root, trialFile)
	f, err := n.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), n.fs.Remove(name)) }()
	wrote := bytes.Repeat([]byte{0xa5}, trialBytes)
	if _, err := f.WriteAt(wrote, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	read := make([]byte, trialBytes)
	if _, err := f.ReadAt(read, 0); err != nil && err != io.EOF {
		return err
	}
	if !bytes.Equal(read, wrote) {
		return fmt.Errorf("%s: other bytes were read than were written", name)
	}
	return nil
}
