package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/replication"
)

// membership is the goroutine that keeps a consumer a member of its group; its fields are the
// goroutine's own.
type membership struct {
	c        *Consumer
	protocol groupProtocol
	number   int64     // of the membership, see assignment
	lastBeat time.Time // time of the last response of the coordinator
	progress int64     // last observed progress of the application
	lastSeen time.Time // time of that observation
	// pause after the last failed attempt to be a member; 0: the member is in a generation
	backoff time.Duration
}

// A groupProtocol is the part of a member that differs between the protocols. The membership
// goroutine uses it, and after its end the goroutine that closes the consumer.
type groupProtocol interface {
	// generation joins the group, or continues in it, and keeps the membership alive. It returns
	// the cause when the generation ends or has to begin again.
	generation(ctx context.Context) error
	// disowned discards the assignment of the group: all partitions of the member are lost.
	disowned()
	// leave removes the member with that id from the group. It returns nil for a member that the
	// group does not have.
	leave(ctx context.Context, id, reason string) error
	// reopenCommits makes the group accept commits of this member again if it rejects them, until
	// stop is called. The membership goroutine has ended.
	reopenCommits(ctx context.Context) (stop func())
}

// errRejoin: the group rebalances. errGone: this member is no longer in the group. errSilence: it
// may not be, since the coordinator did not respond for a session timeout. errRefused: the group
// rejects the member.
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
		case isFatalForMember(err):
			m.endMembership(false)
			c.fail(fmt.Errorf("consumer: group %s: %w", c.cfg.Group, err))
			return
		case errors.Is(err, errRejoin):
		case errors.Is(err, errGone):
			m.lose(ctx, m.endMembership(false))
		case errors.Is(err, errSilence):
			m.lose(ctx, m.doubt())
		case errors.Is(err, ErrPollTimeout):
			m.lose(ctx, m.endMembership(true))
		default:
			c.warnRepeated("group membership interrupted, trying again", err)
			c.noteTrouble(err)
			m.pauseBetween(ctx)
		}
	}
}

// pauseBetween waits between two attempts to be a member. The pause doubles until an attempt
// succeeds. Changes that a kick announces end it after minBackoff, and the next one is short again:
// the cause of the failures may be gone.
func (m *membership) pauseBetween(ctx context.Context) {
	m.backoff = min(max(2*m.backoff, minBackoff), maxBackoff)
	pause(ctx, minBackoff)
	rest := time.NewTimer(m.backoff - minBackoff)
	defer rest.Stop()
	select {
	case <-m.c.member.kick:
		m.backoff = 0
	case <-rest.C:
	case <-ctx.Done():
	}
}

// noteTrouble stores err for polls that end before the consumer is a member again.
func (c *Consumer) noteTrouble(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member.trouble = err
}

// interrupted adds the error that keeps the consumer out of its group to the error of a context
// that has ended. A damaged partition of __consumer_offsets would look like an idle topic
// otherwise.
func (c *Consumer) interrupted(err error) error {
	if err != context.Canceled && err != context.DeadlineExceeded {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.member.trouble == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, c.member.trouble)
}

// isFatalForMember reports whether err ends the membership for good.
func isFatalForMember(err error) bool {
	if retriable, decided := retriable.Of(err); decided {
		return !retriable
	}
	for _, fatal := range []error{
		errRefused, group.ErrFencedInstance, group.ErrInconsistentProtocol, group.ErrInvalidSessionTimeout, group.ErrInvalidGroupID, group.ErrGroupMaxSize, group.ErrClosed, replication.ErrClosed,
	} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return false
}

// lose waits until the polling goroutine has noticed that all partitions are lost: a member that is
// not polled does not join again.
func (m *membership) lose(ctx context.Context, adopted <-chan struct{}) {
	select {
	case <-adopted:
	case <-ctx.Done():
	}
	m.lastSeen, m.lastBeat = time.Now(), time.Now()
}

// endMembership ends the membership.
func (m *membership) endMembership(pollExceeded bool) (adopted <-chan struct{}) {
	adopted = m.disown(pollExceeded)
	m.c.setMember("", -1)
	return adopted
}

// doubt gives up all partitions, since other members may have them, but keeps the member's id. A
// coordinator that was unavailable itself still has the member, and would wait a session timeout
// for a member that does not return under its id.
func (m *membership) doubt() (adopted <-chan struct{}) {
	id := m.c.state().id
	adopted = m.disown(false)
	m.c.setMember(id, -1)
	return adopted
}

// disown marks all partitions as lost: the adopted ones of the polling goroutine, and the others.
func (m *membership) disown(pollExceeded bool) (adopted <-chan struct{}) {
	m.number++
	m.protocol.disowned()
	m.c.mu.Lock()
	m.c.member.pollExceeded = pollExceeded
	adopted = m.c.assignLocked(target{assignment: assignment{membership: m.number}})
	m.c.mu.Unlock()
	return adopted
}
