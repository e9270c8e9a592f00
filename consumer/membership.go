package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/replication"
)

// membership is the goroutine that keeps a consumer a member of its group; its fields are the
// goroutine's own.
type membership struct {
	c        *Consumer
	protocol groupProtocol
	number   int64     // of the membership, see assignment
	lastBeat time.Time // of the last answer from the coordinator
	progress int64     // of the application, when last looked at
	lastSeen time.Time // when it last made progress
}

// A groupProtocol is how a member speaks to its group: what the protocols do differently. It is the
// membership goroutine's, and when that has ended of who closes the consumer.
type groupProtocol interface {
	// generation joins the group, or goes on in it, and keeps the membership alive until something
	// ends it, or has to begin again, which is returned.
	generation(ctx context.Context) error
	// disowned forgets what the group has told: whatever the member had is lost.
	disowned()
	// leave tells the group that the member of that id is gone; one that the group does not know
	// has left.
	leave(ctx context.Context, id string) error
	// reopenCommits makes the group accept commits of this member again where it does not, until
	// stop. The membership goroutine has ended.
	reopenCommits(ctx context.Context) (stop func())
}

// errRejoin says that the group rebalances; errGone that this member is out of it; errSilence that
// it may be, since nobody has heard of it for a session; errRefused that the group will not have
// it.
var (
	errRejoin  = errors.New("consumer: rebalance")
	errGone    = errors.New("consumer: member is out of the group")
	errSilence = errors.New("consumer: member may be out of the group")
	errRefused = errors.New("consumer: member is refused")
)

func (m *membership) run(ctx context.Context) {
	c := m.c
	m.lastSeen, m.lastBeat = time.Now(), time.Now()
	c.setMember("", -1)
	for ctx.Err() == nil {
		err := m.protocol.generation(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errRejoin):
		case errors.Is(err, errGone):
			m.lose(ctx, m.forget(false))
		case errors.Is(err, errSilence):
			m.lose(ctx, m.doubt())
		case errors.Is(err, ErrPollTimeout):
			m.lose(ctx, m.forget(true))
		case isFatalForMember(err):
			m.forget(false)
			c.fail(fmt.Errorf("consumer: group %s: %w", c.cfg.Group, err))
			return
		default:
			c.cfg.Logger.Warn("group membership interrupted, trying again", "group", c.cfg.Group, "err", err)
			pause(ctx, minBackoff)
		}
	}
}

func isFatalForMember(err error) bool {
	for _, fatal := range []error{
		errRefused, group.ErrFencedInstance, group.ErrInconsistentProtocol, group.ErrInvalidSessionTimeout, group.ErrInvalidGroupID, group.ErrGroupMaxSize, group.ErrClosed, replication.ErrClosed,
	} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return false
}

// lose waits until the polling goroutine has noticed that everything is lost: a member that is not
// polled does not join again.
func (m *membership) lose(ctx context.Context, adopted <-chan struct{}) {
	select {
	case <-adopted:
	case <-ctx.Done():
	}
	m.lastSeen, m.lastBeat = time.Now(), time.Now()
}

// forget ends the membership.
func (m *membership) forget(pollExceeded bool) (adopted <-chan struct{}) {
	adopted = m.disown(pollExceeded)
	m.c.setMember("", -1)
	return adopted
}

// doubt gives everything up, as others may have it by now, but keeps the member's id: a coordinator
// that was away itself knows the member still, and would wait a session for one that does not come
// back under its id.
func (m *membership) doubt() (adopted <-chan struct{}) {
	id := m.c.state().id
	adopted = m.disown(false)
	m.c.setMember(id, -1)
	return adopted
}

// disown makes everything lost: what the polling goroutine holds, and what it has not adopted yet,
// is not ours from here on.
func (m *membership) disown(pollExceeded bool) (adopted <-chan struct{}) {
	m.number++
	m.protocol.disowned()
	m.c.mu.Lock()
	m.c.member.pollExceeded = pollExceeded
	adopted = m.c.assignLocked(target{assignment: assignment{membership: m.number}})
	m.c.mu.Unlock()
	return adopted
}
