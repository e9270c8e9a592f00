package segment

// pinned is what a ReadOnly segment holds, so that it stays what it was at Open. The writer changes
// it; in other segments it is empty.
type pinned struct {
	log     *openFile // held from Open to Close
	aborted []byte    // the transaction index as Open or Recover found it
}

// pin makes a ReadOnly segment hold what it is going to read. The transaction index comes first:
// who removes a segment takes the name from the .log file before he removes the index, so an index
// that was found to be missing while the .log file still had its name never was.
func (s *Segment) pin() (err error) {
	if s.aborted, err = s.readAbortedFile(); err != nil {
		return err
	}
	if s.pinned.log, err = s.cfg.Files.acquire(s); err != nil {
		return err
	}
	s.alloc, err = s.pinned.log.file.Size() // that of the name may be another file's by now
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
