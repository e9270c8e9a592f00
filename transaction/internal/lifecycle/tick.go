package lifecycle

import (
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/transaction/txnlog"
)

// retryProducerID is when NeedsProducerID is said again.
const retryProducerID = time.Second

// EventTick says that time has passed. It aborts a transaction that has taken too long.
type EventTick struct {
	NewID *int64 // nobody ever had it; nil: none at hand, see NeedsProducerID
}

func (e EventTick) step(m *Machine, now time.Time) {
	at := deadline(m.value)
	if at.IsZero() || now.Before(at) || m.fence(now, e.NewID) {
		return
	}
	m.eff.Notice = NeedsProducerID{m.id}
	m.eff.WakeAt = now.Add(retryProducerID)
}

// EventExpire forgets an id that nobody has used for long. Its producer is told
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

// EventCancel says that nobody waits for a request any more. All are answered at once, so there is
// nothing to take back.
type EventCancel struct{ Ticket machine.Ticket }

func (EventCancel) step(*Machine, time.Time) {}
