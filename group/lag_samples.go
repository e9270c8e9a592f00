package group

import "time"

const (
	lagWindow   = time.Minute      // the rate of a group is measured over at least this time
	lagInterval = 10 * time.Second // between two samples of a group, and the shortest window
	lagForget   = time.Hour        // a group that was not listed for this long has no samples

	// maxLagSamples bounds the samples of a group: those in a window, and an earlier one.
	maxLagSamples = int(lagWindow/lagInterval) + 1
)

type lagSample struct {
	at  time.Time
	lag int64
}

// lagSamples are the samples of a group, oldest first, at least lagInterval apart. All except the
// first are younger than lagWindow.
type lagSamples []lagSample

// add returns the samples with a new one, unless the last one is too young.
func (s lagSamples) add(now lagSample) lagSamples {
	if n := len(s); n == 0 || now.at.Sub(s[n-1].at) >= lagInterval {
		s = append(s, now)
	}
	old := 0
	for old+1 < len(s) && now.at.Sub(s[old+1].at) >= lagWindow {
		old++
	}
	return append(s[:0], s[old:]...)
}

// drain returns the time to catch up at the rate since the first sample.
func (s lagSamples) drain(now lagSample) time.Duration {
	var since time.Duration
	if d := now.at.Sub(s[0].at); d >= lagInterval {
		since = d
	}
	return DrainTime(now.lag, s[0].lag, since)
}

// A lagSampler measures the rates of groups. Its caller holds a lock.
type lagSampler map[string]lagSamples

// drains sets Drain of lags. If all is set, groups that lags does not list no longer exist.
func (m lagSampler) drains(now time.Time, lags []GroupLag, all bool) {
	listed := make(map[string]bool, len(lags))
	for i := range lags {
		l := &lags[i]
		listed[l.Group] = true
		if l.Unknown > 0 { // Lag is incomplete
			l.Drain = DrainUnknown
			continue
		}
		s := lagSample{now, l.Lag}
		m[l.Group] = m[l.Group].add(s)
		l.Drain = m[l.Group].drain(s)
	}
	for group, s := range m {
		if !listed[group] && (all || now.Sub(s[len(s)-1].at) >= lagForget) {
			delete(m, group)
		}
	}
}
