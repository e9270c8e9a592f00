package group

import (
	"fmt"
	"time"
)

// A LagLimit is how far behind an application may be: a lag is beyond it that is more than Records
// and takes longer than Drain to catch up with. Every application has its own: seconds for
// payments, a night for reports. The zero LagLimit tolerates no lag at all.
type LagLimit struct {
	// Records is how large a lag is tolerated however long it takes to catch up with, as some
	// records are always under way. Below 0: as 0.
	Records int64

	// Drain is how long catching up may take, however many records it is; see GroupLag.Drain.
	// DrainNever is longer than any; DrainUnknown is tolerated, as the next call of Lags knows
	// more. 0 or below: a lag of more than Records is not tolerated however fast it shrinks.
	Drain time.Duration
}

// Check returns nil if l is tolerable, and a *LagError that says why it is not. It does not block.
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

// A LagError says that a group is further behind than its application tolerates: it needs more
// members, faster ones, or a look at what holds them up.
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

// DrainTime returns how long a group with this lag takes to catch up at the rate since it had
// another one, the time since ago: 0 if there is no lag, DrainNever if it has not shrunk,
// DrainUnknown if since is not above 0.
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
