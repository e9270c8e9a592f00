package segment

// pinned keeps the files of a ReadOnly segment as they were at Open, while a writer changes them.
// In other segments it is empty.
type pinned struct {
	log     *openFile // held from Open to Close
	aborted []byte    // the transaction index as Open or Recover found it
}

// pin opens the files that a ReadOnly segment is going to read. The transaction index comes first.
// A removal renames the .log file before it removes the index. So if the index is missing and the
// .log file still has its name, the segment never had an index.
func (s *Segment) pin() (err error) {
	if s.aborted, err = s.readAbortedFile(); err != nil {
		return err
	}
	if s.pinned.log, err = s.cfg.Files.acquire(s); err != nil {
		return err
	}
	s.alloc, err = s.pinned.log.file.Size() // the name may belong to another file by now
	return err
}

// unpin ends pin.
func (s *Segment) unpin() error {
	f := s.pinned.log
	if f == nil {
		return nil
	}
	s.pinned.log = nil
	return s.cfg.Files.release(f)
}

// reloadAborted reads the transaction index again: a walk may have come upon a marker that is
// younger than what Open read.
func (s *Segment) reloadAborted() {
	if now, err := s.readAbortedFile(); err == nil && len(now) > len(s.aborted) {
		s.aborted = now
		s.txns.edition.Add(1)
	}
}
