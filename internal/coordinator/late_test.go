package coordinator

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/synctest"
)

// session is a machine with one member, whose session lasts 10 s from each heartbeat on.
type session struct {
	ends    time.Time
	expired bool
}

type beat struct {
	tick bool
	to   machine.Ticket
}

func (m *session) Step(now time.Time, ev beat) (eff machine.Effects[string]) {
	switch {
	case !ev.tick:
		m.ends = now.Add(10 * time.Second)
		eff.Replies = []machine.Reply{{To: ev.to}}
	case !now.Before(m.ends):
		m.expired = true
	}
	if !m.expired {
		eff.WakeAt = m.ends
	}
	return eff
}

func (m *session) Accept()         {}
func (m *session) Discard()        {}
func (m *session) Apply(string)    {}
func (m *session) Forgotten() bool { return false }

// A process that was stopped for longer than sessions last, as by SIGSTOP, gives its members time
// for a heartbeat when it continues: they were stopped, too. A member that sends none is removed
// then. A member that falls silent in a running process is removed without delay.
func TestSessionsDoNotEndInATickThatIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		stopped, beats bool
		expires        time.Duration // after the session's end, or the end of the stop
	}{
		"a member that sends a heartbeat":       {stopped: true, beats: true, expires: 3*time.Second + 10*time.Second},
		"a member that is gone":                 {stopped: true, expires: lateGrace},
		"a process that was stopped not at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Kind[*session, beat, string]{
					New: func(string) *session { return &session{} }, ID: func(string) string { return "x" }, Tick: beat{tick: true},
					Cancel: func(machine.Ticket) beat { return beat{tick: true} }, Partition: func(string, int32) int32 { return 0 },
				}, &heldLog{}, Config{Topic: "t", ExpiryInterval: 1000 * time.Hour, MaxBatchBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
				defer r.Close()
				_, err := r.Partitions(t.Context(), false)
				require.NoError(t, err)
				s, err := r.Shard(0)
				require.NoError(t, err)
				heartbeat := func() {
					_, err := s.Do(t.Context(), "x", func(q *Request[*session, beat, string]) { q.Step("x", beat{to: q.Ticket}) })
					require.NoError(t, err)
				}
				expired := func() (yes bool) {
					synctest.Wait()
					require.NoError(t, s.Each(t.Context(), func(_ string, m *session) { yes = m.expired }))
					return yes
				}
				heartbeat()
				if c.stopped {
					s.alarm.Disarm()
					time.Sleep(50 * time.Second)
					s.tick()
				} else {
					time.Sleep(10 * time.Second)
				}
				continued := time.Now()
				if c.beats {
					time.Sleep(3 * time.Second)
					heartbeat()
				}
				if wait := c.expires - time.Since(continued); wait > 0 {
					time.Sleep(wait - time.Nanosecond)
					require.False(t, expired())
					time.Sleep(time.Nanosecond)
				}
				require.True(t, expired())
			})
		})
	}
}
