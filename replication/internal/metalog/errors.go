package metalog

import (
	"errors"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// ErrReadOnly is returned if so many copies failed during a change that its outcome is unknown.
var ErrReadOnly = errors.New("replication: metadata cannot be changed, too few of its copies work")

// Reasons why a directory cannot be used: see Place.Blame.
var (
	ErrLocked      = errors.New("replication: directory is in use")
	ErrNewerFormat = errors.New("replication: directory has a newer format")
	ErrDamaged     = errors.New("replication: directory is damaged")
)

// ErrSilent is the cause recorded when a broker is given up because its disk hangs.
var ErrSilent = errors.New("its disk does not answer, while the disks of other brokers do")

// ErrOthersFailed is the cause recorded when a working copy was not added.
var ErrOthersFailed = errors.New("others failed before it")

// ReasonOf returns the reason of an error of package log about a directory: ErrLocked,
// ErrNewerFormat or ErrDamaged. It returns nil if the error is about something else.
func ReasonOf(err error) error {
	switch {
	case errors.Is(err, log.ErrLocked):
		return ErrLocked
	case errors.Is(err, log.ErrNewerFormat):
		return ErrNewerFormat
	case errors.Is(err, log.ErrCorrupt), errors.Is(err, log.ErrMissingSegment), errors.Is(err, vfs.ErrNotRegular):
		return ErrDamaged
	}
	return nil
}
