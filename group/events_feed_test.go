package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// lonely is a group of one member that joins and leaves without an assignment.
func lonely(t *testing.T, c *Coordinator, group string) {
	j, err := c.Join(ctx, JoinRequest{Group: group, ClientHost: "/h", ProtocolType: "x", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "p"}}})
	require.NoError(t, err)
	_, err = c.Sync(ctx, SyncRequest{Group: group, MemberID: j.MemberID, Generation: j.Generation})
	require.NoError(t, err)
	_, err = c.Leave(ctx, LeaveRequest{Group: group, Members: []LeaveMember{{MemberID: j.MemberID}}})
	require.NoError(t, err)
}

// A slow reader delays no group, and receives the number of events that it missed. The events of
// other readers are complete.
func TestSlowReaderOfGroupEventsIsToldHowManyItMissed(t *testing.T) {
	inBubble(t, newFakeStore(nil), Config{}, func(t *testing.T, c *Coordinator) {
		slow, fast := c.Events(ctx), recordEvents(c)
		const each = 4 // events of a lonely group
		for i := range maxEvents/each + 25 {
			lonely(t, c, fmt.Sprint("g", i))
			synctest.Wait()
		}
		require.Len(t, fast(), maxEvents+25*each)
		var got []Event
		for e := range slow {
			if got = append(got, e); len(got) == maxEvents+1 {
				break
			}
		}
		require.Equal(t, EventsMissed, got[0].Kind)
		require.EqualValues(t, 25*each, got[0].Missed)
		require.EqualValues(t, 25*each, got[0].Number)
		for i, e := range got {
			require.EqualValues(t, 25*each+i, e.Number)
		}
	})
}

func TestGroupEventsEndWithTheContextAndWithTheCoordinator(t *testing.T) {
	inBubble(t, newFakeStore(nil), Config{}, func(t *testing.T, c *Coordinator) {
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for range c.Events(short) {
			t.Fatal("nothing has happened")
		}
		events := c.Events(ctx)
		lonely(t, c, "g")
		require.NoError(t, c.Close())
		var kinds []EventKind
		for e := range events {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []EventKind{Joining, Joined, Assigned, Emptied}, kinds, "events before the end are returned")
	})
}

// An event is not emitted for a change that is not stored.
func TestGroupEventsTellOfStoredChangesOnly(t *testing.T) {
	store := newFakeStore(fourPartitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		take := recordEvents(c)
		j, err := c.Join(ctx, JoinRequest{Group: "g", ClientID: "a", ClientHost: "/h", ProtocolType: "x", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "p"}}})
		require.NoError(t, err)
		require.Equal(t, []string{"joining 0, 1 members: a joined", "joined 1, 1 members: a joined"}, eventLines(take()))
		store.with(func(f *fakeStore) { f.appendErr = errors.New("broken") })
		_, err = c.Sync(ctx, SyncRequest{Group: "g", MemberID: j.MemberID, Generation: 1})
		require.Error(t, err)
		require.Empty(t, eventLines(take()))
		store.with(func(f *fakeStore) { f.appendErr = nil })
		time.Sleep(5 * time.Second)
		lonely(t, c, "g")
		require.Len(t, take(), 4)
	})
}

// An event of a group with many members and partitions has only some of them.
func TestEventOfALargeGroupIsBounded(t *testing.T) {
	const members, partitions = 200, 3000
	inBubble(t, newFakeStore(map[string]int32{"t": partitions}), Config{}, func(t *testing.T, c *Coordinator) {
		take := recordEvents(c)
		lead := newClient(c, "g", assignor.Range(), map[string]int32{"t": partitions}).start()
		defer lead.kill()
		waitGroup(t, c, StableWith(1))
		for range members - 1 {
			m := newClient(c, "g", assignor.Range(), map[string]int32{"t": partitions})
			m.reason = strings.Repeat("x", 10_000)
			defer m.start().kill()
		}
		waitGroup(t, c, StableWith(members))
		events := take()
		last := events[slices.IndexFunc(events, func(e Event) bool { return e.Kind == Assigned && e.Size == members })]
		require.Len(t, last.Members, 64)
		require.Len(t, last.Causes, 16)
		require.Equal(t, members-1-16, last.MoreCauses)
		require.Equal(t, partitions-partitions/members, last.Moved)
		shown := 0
		for _, m := range last.Members {
			shown += len(m.Assignment)
		}
		require.Equal(t, 512, shown)
		for _, cause := range last.Causes {
			require.Len(t, cause.Reason, 255)
		}
	})
}

// An Assigned event has the members with their partitions, as the group describes them.
func TestAssignedEventHasTheOwnersOfPartitions(t *testing.T) {
	inBubble(t, newFakeStore(fourPartitions), Config{}, func(t *testing.T, c *Coordinator) {
		take := recordEvents(c)
		for range 2 {
			defer newClient(c, "g", assignor.Range(), fourPartitions).start().kill()
		}
		info := waitGroup(t, c, StableWith(2))
		events := take()
		last := events[len(events)-1]
		require.Equal(t, Assigned, last.Kind)
		require.Equal(t, info.Generation, last.Generation)
		require.Equal(t, "range", last.Assignor)
		require.Equal(t, Classic, last.Type)
		var want []MemberInfo
		for _, m := range info.Members {
			want = append(want, MemberInfo{ID: m.ID, ClientID: m.ClientID, ClientHost: m.ClientHost, Assignment: m.Assignment})
		}
		require.Equal(t, want, last.Members)
	})
}

// The log has one line for each rebalance, at Info, with its cause. A group that rebalances all the
// time does not fill the log.
func TestLogSaysOncePerRebalanceWhy(t *testing.T) {
	var logged bytes.Buffer
	cfg := Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	inBubble(t, newFakeStore(fourPartitions), cfg, func(t *testing.T, c *Coordinator) {
		a := newClient(c, "g", assignor.Range(), fourPartitions).start()
		defer a.kill()
		waitGroup(t, c, StableWith(1))
		defer newClient(c, "g", assignor.Range(), fourPartitions).start().kill()
		waitGroup(t, c, StableWith(2))
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		require.Len(t, lines, 2, logged.String())
		require.Regexp(t, `level=INFO msg=rebalanced group=g generation=1 members=1 protocol=range cause="c-\S+ joined" took=0s$`, lines[0])
		require.Regexp(t, `group=g generation=2 members=2 protocol=range cause="c-\S+ joined" took=3s waited_for=`+a.memberID(), lines[1])
		logged.Reset()
		time.Sleep(time.Minute)
		for range 100 {
			lonely(t, c, "thrash")
		}
		synctest.Wait()
		require.Equal(t, 10, strings.Count(logged.String(), "msg=rebalanced"))
		logged.Reset()
		time.Sleep(time.Minute)
		lonely(t, c, "thrash")
		require.Contains(t, logged.String(), "not_logged_before=190")
	})
}

// A commit that a group rejects is in the events, at most once a second.
func TestEventsTellOfRefusedCommits(t *testing.T) {
	inBubble(t, newFakeStore(fourPartitions), Config{}, func(t *testing.T, c *Coordinator) {
		defer newClient(c, "g", assignor.Range(), fourPartitions).start().kill()
		waitGroup(t, c, StableWith(1))
		take := recordEvents(c)
		r := commitOf("g", record.Offsets{{Topic: "t"}: 1})
		r.MemberID, r.Generation = "stranger", 1
		for range 12 {
			_, err := c.CommitOffsets(ctx, r)
			require.ErrorIs(t, err, ErrUnknownMember)
			time.Sleep(100 * time.Millisecond)
		}
		events := take()
		require.Len(t, events, 2)
		require.Equal(t, []int{1, 10}, []int{events[0].Refused, events[1].Refused})
		require.ErrorIs(t, events[1].Err, ErrUnknownMember)
		require.Equal(t, "stranger", events[1].Member)
	})
}
