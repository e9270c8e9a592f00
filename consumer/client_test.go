package consumer_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// connection is a backend whose calls are made between its opening and its end. Any other call
// fails the test.
type connection struct {
	consumer.Backend
	t    *testing.T
	line chan struct{} // held during a call, since only one is served at a time; nil: any number is

	mu    sync.Mutex // guards the fields below
	over  bool
	calls int // in progress
}

// begin returns the end of one call. It waits until it has line, if that is not nil, or for the end
// of ctx.
func (s *connection) begin(ctx context.Context, line chan struct{}) (done func(), err error) {
	s.mu.Lock()
	if s.over {
		s.t.Error("a call outside of a session")
	}
	s.calls++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls--
	}
	if line == nil {
		return leave, nil
	}
	select {
	case line <- struct{}{}:
		return func() { <-line; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// end is the end of a session.
func (s *connection) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.t.Error("a session ended twice")
	}
	if s.calls > 0 {
		s.t.Errorf("a session ended during %d calls", s.calls)
	}
	s.over = true
}

// during makes one call of a connection.
func during[T any](ctx context.Context, s *connection, call func() (T, error)) (none T, err error) {
	done, err := s.begin(ctx, s.line)
	if err != nil {
		return none, err
	}
	defer done()
	return call()
}

func (s *connection) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	return during(ctx, s, func() (replication.Metadata, error) { return s.Backend.Metadata(ctx, topics...) })
}

// WaitMetadata does not use the line: clients notice changes by requests of their own.
func (s *connection) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	done, err := s.begin(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer done()
	return s.Backend.WaitMetadata(ctx, after)
}

func (s *connection) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	return during(ctx, s, func() (*partition.FetchResponse, error) { return s.Backend.Fetch(ctx, req) })
}

func (s *connection) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	return during(ctx, s, func() (map[record.TopicPartition]partition.OffsetResult, error) {
		return s.Backend.ListOffsets(ctx, at, iso)
	})
}

func (s *connection) Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error) {
	return during(ctx, s, func() (group.JoinResponse, error) { return s.Backend.Join(ctx, req) })
}

func (s *connection) Sync(ctx context.Context, req group.SyncRequest) (group.SyncResponse, error) {
	return during(ctx, s, func() (group.SyncResponse, error) { return s.Backend.Sync(ctx, req) })
}

func (s *connection) Heartbeat(ctx context.Context, req group.HeartbeatRequest) error {
	_, err := during(ctx, s, func() (struct{}, error) { return struct{}{}, s.Backend.Heartbeat(ctx, req) })
	return err
}

func (s *connection) Leave(ctx context.Context, req group.LeaveRequest) ([]error, error) {
	return during(ctx, s, func() ([]error, error) { return s.Backend.Leave(ctx, req) })
}

func (s *connection) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	return during(ctx, s, func() (map[record.TopicPartition]error, error) { return s.Backend.CommitOffsets(ctx, req) })
}

func (s *connection) FetchOffsets(ctx context.Context, id string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	return during(ctx, s, func() (map[record.TopicPartition]record.Committed, error) {
		return s.Backend.FetchOffsets(ctx, id, tps)
	})
}

func (s *connection) FetchStableOffsets(ctx context.Context, id string, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error) {
	done, err := s.begin(ctx, s.line)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	return s.Backend.FetchStableOffsets(ctx, id, tps)
}

func (s *connection) Group(ctx context.Context, id string) (group.Info, error) {
	return during(ctx, s, func() (group.Info, error) { return s.Backend.Group(ctx, id) })
}

func (s *connection) ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	return during(ctx, s, func() (group.ConsumerHeartbeatResponse, error) { return s.Backend.ConsumerHeartbeat(ctx, req) })
}

// A client is an Opener. Calls outside of its sessions fail the test, unless serial is set.
type client struct {
	*connection // for calls outside of sessions
	serial      bool

	mu       sync.Mutex // guards the fields below
	settings []consumer.Session
	sessions []*connection
	err      error // of OpenSession
}

func newClient(t *testing.T, b consumer.Backend) *client {
	return &client{connection: &connection{Backend: b, t: t, over: true}}
}

// newSerialClient returns a client each of whose connections serves one call at a time, as a TCP
// connection of Kafka does. Its own may be used, too.
func newSerialClient(t *testing.T, b consumer.Backend) *client {
	return &client{connection: &connection{Backend: b, t: t, line: make(chan struct{}, 1)}, serial: true}
}

func (c *client) OpenSession(ctx context.Context, s consumer.Session) (consumer.LogBackend, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, nil, c.err
	}
	own := &connection{Backend: c.Backend, t: c.t}
	if c.serial {
		own.line = make(chan struct{}, 1)
	}
	end := own.end
	if o, ok := c.Backend.(consumer.Opener); ok {
		b, closeSession, err := o.OpenSession(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		own.Backend, end = b.(consumer.Backend), func() { own.end(); closeSession() }
	}
	c.settings, c.sessions = append(c.settings, s), append(c.sessions, own)
	return own, end, nil
}

// counts returns how many sessions were opened, and how many have ended.
func (c *client) counts() (opened, ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		s.mu.Lock()
		if opened++; s.over {
			ended++
		}
		s.mu.Unlock()
	}
	return opened, ended
}

// requireEnded checks that n sessions were opened, and that all have ended.
func (c *client) requireEnded(t *testing.T, n int) {
	t.Helper()
	opened, ended := c.counts()
	require.Equal(t, n, opened, "sessions opened")
	require.Equal(t, n, ended, "sessions ended")
}

const overSessions = "TestConsumersWithSessionsKeepTheirPromises/"

// over returns the backend that a test is about: b, or a client that has it.
func over(t *testing.T, b consumer.LogBackend) consumer.LogBackend {
	t.Helper()
	if c, ok := b.(*strata.Cluster); ok && wired.On(t) {
		return network(t, c)
	}
	all, whole := b.(consumer.Backend)
	if !whole || !strings.HasPrefix(t.Name(), overSessions) {
		return b
	}
	c := newClient(t, all)
	t.Cleanup(func() {
		opened, ended := c.counts()
		require.Equal(t, opened, ended, "all sessions have ended")
	})
	return c
}

// Consumers of an Opener make each call in their session, and end it once.
func TestConsumersWithSessionsKeepTheirPromises(t *testing.T) {
	chosen := sample.Fewer(t, 4)
	for i, test := range []func(*testing.T){
		TestTwoMembersShareThePartitionsEvenlyAndEachRecordHasOneReader,
		TestSurplusMemberIdlesAndTakesOverFromALeaver,
		TestSlowApplicationLosesItsPartitionsAndItsCommitIsRefused,
		TestMemberWhoseHeartbeatsDoNotGetThroughGivesUpItsPartitions,
		TestStaticMemberComesBackWithoutARebalance,
		TestStaticMemberThatComesBackSeesThatTheAssignmentDoesNotFit,
		TestNewPartitionsAreAssignedWithoutHelp,
		TestMembersOfTheNewerProtocolKeepThePromisesOfMembers,
		TestSubscribeChangesTheTopicsOfALiveConsumer,
		TestTopicThatMayComeLaterIsReadFromItsFirstRecord,
		TestCloseBetweenJoinAndSyncIsShortAndKeepsItsCommit,
		TestQueuedCommitsAreSentBeforeTheConsumerCloses,
		TestConsumerOfAClosedClusterIsTold,
		TestRunEndsWithAnErrorWhenDeadLetterDoesNotReturn,
		TestRunLeavesNoWorkerBehindWhenACallbackDoesNotReturn,
		TestMembersComeAndGoAndEveryRecordIsProcessedByAnOwner,
		TestStormOfRebalancesSeeksPausesClosesAndRecreations,
		TestRunHoldsItsPromisesWhateverHandlersAndCallersDo,
		TestReadEndsAtAGapBeforeTheEnd,
		TestFollowGoesOnWithRecordsAndPartitionsToCome,
		TestPartitionInTroubleAddsNoLatencyToTheOthers,
	} {
		if chosen(i) {
			t.Run(nameOf(test), test)
		}
	}
}
