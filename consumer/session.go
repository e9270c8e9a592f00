package consumer

import (
	"context"
	"fmt"
	"sync"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// openSession returns the backend that one consumer or reader uses: a session of b if b is an
// Opener, else b. The caller calls end once, also after an error. If calls are in progress then,
// the session ends with the last of them. Later calls return ErrClosed.
func openSession(ctx context.Context, b LogBackend, s Session) (own LogBackend, end func(), err error) {
	o, ok := b.(Opener)
	if !ok {
		return b, func() {}, nil
	}
	own, end, err = o.OpenSession(ctx, s)
	if err != nil {
		return nil, func() {}, fmt.Errorf("consumer: open a session: %w", err)
	}
	calls := &sessionCalls{active: 1, end: end}
	return calls.through(own), calls.close, nil
}

// sessionCalls counts the calls of a session, since the application may call a consumer on any
// goroutine while another one closes it.
type sessionCalls struct {
	end func() // called when active becomes 0

	mu     sync.Mutex // guards the fields below
	active int        // calls in progress, and one until close
	closed bool       // no call begins any more
}

func (s *sessionCalls) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.active++
	return nil
}

func (s *sessionCalls) done() {
	s.mu.Lock()
	s.active--
	last := s.active == 0
	s.mu.Unlock()
	if last {
		s.end()
	}
}

func (s *sessionCalls) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.done()
}

// counted makes one call of a session.
func counted[T any](s *sessionCalls, call func() (T, error)) (none T, err error) {
	if err := s.begin(); err != nil {
		return none, err
	}
	defer s.done()
	return call()
}

// through returns b with its calls counted. The result implements GroupBackend and
// ConsumerGroupBackend if b does.
func (s *sessionCalls) through(b LogBackend) LogBackend {
	logs := sessionLogs{s, b}
	groups, ok := b.(GroupBackend)
	if !ok {
		return logs
	}
	classic := sessionGroups{logs, groups}
	if modern, ok := b.(ConsumerGroupBackend); ok {
		return sessionConsumerGroups{classic, modern}
	}
	return classic
}

// sessionLogs is a session's LogBackend.
type sessionLogs struct {
	calls *sessionCalls
	logs  LogBackend
}

// ClusterID is the session's, empty if it has no such method: see LogBackend.
func (b sessionLogs) ClusterID() string {
	if own, ok := b.logs.(interface{ ClusterID() string }); ok {
		return own.ClusterID()
	}
	return ""
}

func (b sessionLogs) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	return counted(b.calls, func() (replication.Metadata, error) { return b.logs.Metadata(ctx, topics...) })
}

func (b sessionLogs) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	return counted(b.calls, func() (int64, error) { return b.logs.WaitMetadata(ctx, after) })
}

func (b sessionLogs) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	return counted(b.calls, func() (*partition.FetchResponse, error) { return b.logs.Fetch(ctx, req) })
}

func (b sessionLogs) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	return counted(b.calls, func() (map[record.TopicPartition]partition.OffsetResult, error) {
		return b.logs.ListOffsets(ctx, at, iso)
	})
}

// sessionGroups is a session's GroupBackend.
type sessionGroups struct {
	sessionLogs
	groups GroupBackend
}

func (b sessionGroups) Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error) {
	return counted(b.calls, func() (group.JoinResponse, error) { return b.groups.Join(ctx, req) })
}

func (b sessionGroups) Sync(ctx context.Context, req group.SyncRequest) (group.SyncResponse, error) {
	return counted(b.calls, func() (group.SyncResponse, error) { return b.groups.Sync(ctx, req) })
}

func (b sessionGroups) Heartbeat(ctx context.Context, req group.HeartbeatRequest) error {
	_, err := counted(b.calls, func() (struct{}, error) { return struct{}{}, b.groups.Heartbeat(ctx, req) })
	return err
}

func (b sessionGroups) Leave(ctx context.Context, req group.LeaveRequest) ([]error, error) {
	return counted(b.calls, func() ([]error, error) { return b.groups.Leave(ctx, req) })
}

func (b sessionGroups) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	return counted(b.calls, func() (map[record.TopicPartition]error, error) { return b.groups.CommitOffsets(ctx, req) })
}

func (b sessionGroups) FetchOffsets(ctx context.Context, id string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	return counted(b.calls, func() (map[record.TopicPartition]record.Committed, error) {
		return b.groups.FetchOffsets(ctx, id, tps)
	})
}

func (b sessionGroups) FetchStableOffsets(ctx context.Context, id string, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error) {
	committed, err = counted(b.calls, func() (got map[record.TopicPartition]record.Committed, err error) {
		got, unstable, err = b.groups.FetchStableOffsets(ctx, id, tps)
		return got, err
	})
	return committed, unstable, err
}

func (b sessionGroups) Group(ctx context.Context, id string) (group.Info, error) {
	return counted(b.calls, func() (group.Info, error) { return b.groups.Group(ctx, id) })
}

// NotifyRebalanced implements Notifier, which is optional for the session. The membership goroutine
// calls stop before the session ends.
func (b sessionGroups) NotifyRebalanced(id string, ch chan<- struct{}) (stop func()) {
	if n, ok := b.groups.(Notifier); ok {
		return n.NotifyRebalanced(id, ch)
	}
	return func() {}
}

// sessionConsumerGroups is a session's ConsumerGroupBackend.
type sessionConsumerGroups struct {
	sessionGroups
	modern ConsumerGroupBackend
}

func (b sessionConsumerGroups) ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	return counted(b.calls, func() (group.ConsumerHeartbeatResponse, error) { return b.modern.ConsumerHeartbeat(ctx, req) })
}
