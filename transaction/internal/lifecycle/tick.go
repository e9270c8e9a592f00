package lifecycle

import (
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
)

// retryProducerID is the interval at which NeedsProducerID is repeated.
const retryProducerID = time.Second

// EventTick reports the time. It aborts a transaction after its timeout.
type EventTick struct {
	NewID *int64 // a new producer id; nil if there is none yet, see NeedsProducerID
}

func (e EventTick) step(m *Machine, now time.Time) {
	at := deadline(m.value)
	if at.IsZero() || now.Before(at) || m.fence(now, e.NewID) {
		return
	}
	m.eff.Notice = NeedsProducerID{m.id}
	m.eff.WakeAt = now.Add(retryProducerID)
}

// EventExpire removes an id that was unused for Config.Expiration. Its producer gets
// ErrInvalidProducerMapping then.
type EventExpire struct{}

func (EventExpire) step(m *Machine, now time.Time) {
	v := m.value
	if m.cfg.Expiration == 0 || v == nil || v.State != txnlog.Empty && !v.State.Complete() ||
		now.Before(time.UnixMilli(v.UpdateMs).Add(m.cfg.Expiration)) {
		return
	}
	m.become(nil)
}

// EventCancel reports that a request's caller has stopped waiting. It has no effect: all requests
// are answered at once.
type EventCancel struct{ Ticket machine.Ticket }

func (EventCancel) step(*Machine, time.Time) {}
