package group

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/partition"
)

// ShareReset returns the starting point of a share group in a partition that is new to it: Latest
// unless the group's configuration sets another one. Kafka: share.auto.offset.reset.
func (c *Coordinator) ShareReset(id string) partition.OffsetSpec {
	spec, err := parseShareReset(c.properties(id)[shareResetKey], time.Now())
	if err != nil {
		return partition.Latest
	}
	return spec
}

// ShareIsolation returns the isolation level of a share group: ReadUncommitted unless the group's
// configuration sets another one. Kafka: share.isolation.level.
func (c *Coordinator) ShareIsolation(id string) partition.Isolation {
	if c.properties(id)[shareIsolationKey] == readCommitted {
		return partition.ReadCommitted
	}
	return partition.ReadUncommitted
}

// The values of shareIsolationKey.
const (
	readCommitted   = "read_committed"
	readUncommitted = "read_uncommitted"
)

func checkIsolation(value string) error {
	if value != readCommitted && value != readUncommitted {
		return errors.New("must be one of " + readCommitted + ", " + readUncommitted)
	}
	return nil
}

// ShareRecords are the settings for handing out records to a share group; see share.Config.
type ShareRecords struct {
	LockDuration     time.Duration // 0: 30 s. Kafka: share.record.lock.duration.ms
	MaxDeliveryCount int           // 0: 5. Kafka: share.delivery.count.limit
	MaxInFlight      int           // 0: 2000. Kafka: share.partition.max.record.locks

	// NoRenewal forbids members to extend the locks of their records. Kafka:
	// share.renew.acknowledge.enable=false.
	NoRenewal bool
}

// ShareRecords returns the settings of a share group: those of its configuration, else
// Config.ShareRecords. It takes no lock.
func (c *Coordinator) ShareRecords(id string) ShareRecords {
	props := c.properties(id)
	if len(props) == 0 {
		return c.cfg.ShareRecords
	}
	of := c.values(id)
	r := ShareRecords{LockDuration: of.millis(shareLockKey), MaxDeliveryCount: int(of(shareDeliveriesKey)), MaxInFlight: int(of(shareLocksKey))}
	renew, set := props[shareRenewKey]
	r.NoRenewal = set && strings.EqualFold(renew, "false") || !set && c.cfg.ShareRecords.NoRenewal
	return r
}

// checkBool returns an error unless value is true or false, in upper or lower case.
func checkBool(value string) error {
	if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
		return errors.New("must be true or false")
	}
	return nil
}

func checkShareReset(value string) error {
	_, err := parseShareReset(value, time.Time{})
	return err
}

// parseShareReset reads latest, earliest, or by_duration: and a duration before now.
func parseShareReset(value string, now time.Time) (partition.OffsetSpec, error) {
	before, byDuration := strings.CutPrefix(value, "by_duration:")
	switch {
	case value == "latest":
		return partition.Latest, nil
	case value == "earliest":
		return partition.Earliest, nil
	case !byDuration:
		return 0, errors.New("is neither latest, earliest nor by_duration")
	}
	d, ok := parseISODuration(before)
	if !ok {
		return 0, errors.New("is not by_duration: and a duration, as PT1H")
	}
	return partition.At(now.Add(-d)), nil
}

var isoDuration = regexp.MustCompile(`^P(?:(\d{1,6})D)?(?:T(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?$`)

// parseISODuration reads a duration of ISO 8601 that is not negative, in days and smaller parts, as
// java.time.Duration prints it.
func parseISODuration(text string) (d time.Duration, ok bool) {
	m := isoDuration.FindStringSubmatch(strings.ToUpper(text))
	if m == nil || strings.Join(m[1:], "") == "" || strings.HasSuffix(strings.ToUpper(text), "T") {
		return 0, false
	}
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if n, err := strconv.ParseInt(m[i+1], 10, 64); err == nil {
			if n > int64((1<<62)/unit) {
				return 0, false
			}
			d += time.Duration(n) * unit
		}
	}
	if fraction := m[5]; fraction != "" {
		n, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
		d += time.Duration(n)
	}
	return d, d >= 0
}
