package group

import (
	"fmt"
	"time"
)

// A LagLimit is the largest tolerable lag of an application. A lag exceeds it if it is more than
// Records and takes longer than Drain to catch up. Each application has its own limit: seconds for
// payments, a night for reports. The zero LagLimit tolerates no lag.
type LagLimit struct {
	// Records is the lag that is tolerated regardless of the time to catch up, since some records
	// are always in progress. Negative values count as 0.
	Records int64

	// Drain is the tolerated time to catch up, for any number of records; see GroupLag.Drain.
	// DrainNever exceeds every limit. DrainUnknown is tolerated, since a call of Lags ten seconds
	// later returns a better value. With 0 or less, a lag of more than Records is never tolerated.
	Drain time.Duration
}

// Check returns nil if l is tolerable, otherwise a *LagError with the reason. It does not block.
//
//	limits := map[string]group.LagLimit{
//		"billing": {Records: 1000, Drain: time.Minute},
//		"reports": {Drain: 8 * time.Hour},
//	}
//	for _, l := range lags {
//		if limit, ok := limits[l.Group]; ok {
//			err = errors.Join(err, limit.Check(l))
//		}
//	}
func (m LagLimit) Check(l GroupLag) error {
	switch {
	case l.Lag <= max(m.Records, 0):
		return nil
	case m.Drain <= 0, l.Drain == DrainNever, l.Drain > m.Drain:
		return &LagError{Lag: l, Limit: m}
	}
	return nil
}

// A LagError reports a group whose lag exceeds the limit of its application: it needs more or
// faster members, or it is being held up.
type LagError struct {
	Lag   GroupLag
	Limit LagLimit
}

func (e *LagError) Error() string {
	s := fmt.Sprintf("group %s: lag %d is more than %d", e.Lag.Group, e.Lag.Lag, max(e.Limit.Records, 0))
	switch {
	case e.Limit.Drain <= 0:
		return s
	case e.Lag.Drain == DrainNever:
		return s + " and does not shrink"
	}
	return fmt.Sprintf("%s and takes %s to catch up with, longer than %s", s, e.Lag.Drain.Round(time.Millisecond), e.Limit.Drain)
}

// DrainTime returns the time that a group with this lag needs to catch up, at the rate since an
// earlier lag, which was measured the time since ago. It returns 0 if there is no lag, DrainNever
// if the lag has not shrunk, and DrainUnknown if since is not positive.
func DrainTime(lag, earlier int64, since time.Duration) time.Duration {
	switch {
	case lag <= 0:
		return 0
	case since <= 0:
		return DrainUnknown
	case lag >= earlier:
		return DrainNever
	}
	perRecord := float64(since) / float64(earlier-lag)
	return time.Duration(min(perRecord*float64(lag), float64(1<<62)))
}
