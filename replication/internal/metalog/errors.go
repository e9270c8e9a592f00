package metalog

import (
	"errors"

	"github.com/stratalog/strata/log"
)

// ErrReadOnly says that so many copies failed in a change that nobody can tell what became of it.
var ErrReadOnly = errors.New("replication: metadata cannot be changed, too few of its copies work")

// Why a directory cannot be used: see Place.Blame.
var (
	ErrLocked      = errors.New("replication: directory is in use")
	ErrNewerFormat = errors.New("replication: directory has a newer format")
	ErrDamaged     = errors.New("replication: directory is damaged")
)

// ErrSilent is why a broker is given up whose disk does not answer.
var ErrSilent = errors.New("its disk does not answer while those of others do")

// ErrOthersFailed is why a copy was not added that has not failed.
var ErrOthersFailed = errors.New("others failed before it")

// ReasonOf returns what an error of package log has against a directory: ErrLocked, ErrNewerFormat
// or ErrDamaged; nil if it is about something else.
func ReasonOf(err error) error {
	switch {
	case errors.Is(err, log.ErrLocked):
		return ErrLocked
	case errors.Is(err, log.ErrNewerFormat):
		return ErrNewerFormat
	case errors.Is(err, log.ErrCorrupt), errors.Is(err, log.ErrMissingSegment):
		return ErrDamaged
	}
	return nil
}
