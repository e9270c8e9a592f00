package consumer_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestEachConsumerAndReaderHasASessionWithItsSettings(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		c := newClient(t, b)
		for _, cfg := range []consumer.Config{
			{Topics: []string{"t"}, Rack: "r"},
			{Group: "g", InstanceID: "i", ClientID: "me", Topics: []string{"t"}},
			{Group: "h", Properties: map[string]string{"client.id": "it"}, Topics: []string{"t"}, Protocol: consumer.ProtocolConsumer},
		} {
			m := open(t, c, cfg)
			read(t, m, 3)
			require.NoError(t, m.Close())
		}
		require.Equal(t, []string{"0:0", "0:1", "0:2"}, places(t, c, consumer.ReadConfig{Topic: "t", Rack: "s"}))
		for range consumer.Follow(t.Context(), c, consumer.ReadConfig{Topic: "t"}) {
			break
		}
		c.requireEnded(t, 5)
		require.Equal(t, []consumer.Session{
			{Rack: "r"}, {Group: "g", InstanceID: "i", ClientID: "me"}, {Group: "h", ClientID: "it"}, {Rack: "s"}, {},
		}, c.settings)
	})
}

func TestSessionThatCannotBeOpenedFailsItsUser(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := newClient(t, b)
		c.err = errors.New("connection refused")
		_, err := consumer.New(c, consumer.Config{Topics: []string{"t"}})
		require.ErrorIs(t, err, c.err)
		n := 0
		for _, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "t"}) {
			require.ErrorIs(t, err, c.err)
			n++
		}
		for _, err := range consumer.Follow(t.Context(), c, consumer.ReadConfig{Topic: "t"}) {
			require.ErrorIs(t, err, c.err)
			n++
		}
		require.Equal(t, 2, n, "one error each")
	})
}

// The client checks that a session ends once, after its last call.
func TestSessionEndsHoweverItsConsumerEnds(t *testing.T) {
	free := consumer.Config{Topics: []string{"t"}}
	member := consumer.Config{Group: "g", Topics: []string{"t"}}
	modern := consumer.Config{Group: "g", Topics: []string{"t"}, Protocol: consumer.ProtocolConsumer}
	// revokes returns member with an OnRevoked.
	revokes := func(fn func()) consumer.Config {
		cfg := member
		cfg.OnRevoked = func(context.Context, []record.TopicPartition) { fn() }
		return cfg
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var m *consumer.Consumer // of the present case
	for name, test := range map[string]struct {
		cfg consumer.Config
		end func(t *testing.T, b *strata.Cluster)
	}{
		"close of a free consumer": {free, func(t *testing.T, _ *strata.Cluster) { require.NoError(t, m.Close()) }},
		"close of a member":        {member, func(t *testing.T, _ *strata.Cluster) { require.NoError(t, m.Close()) }},
		"close of a newer member":  {modern, func(t *testing.T, _ *strata.Cluster) { require.NoError(t, m.Close()) }},
		"close twice": {member, func(t *testing.T, _ *strata.Cluster) {
			require.NoError(t, m.Close())
			require.NoError(t, m.Close())
		}},
		"close from two goroutines": {member, func(t *testing.T, _ *strata.Cluster) {
			done := make(chan error)
			go func() { done <- m.Close() }()
			require.NoError(t, m.Close())
			require.NoError(t, <-done)
		}},
		"shutdown with an ended context": {member, func(t *testing.T, _ *strata.Cluster) { _ = m.Shutdown(ended) }},
		"shutdown with an ended context during a poll": {member, func(t *testing.T, _ *strata.Cluster) {
			done := make(chan error)
			go func() {
				_, err := m.Poll(context.Background())
				done <- err
			}()
			synctest.Wait()
			_ = m.Shutdown(ended)
			require.Error(t, <-done)
		}},
		"close during a loop body": {member, func(t *testing.T, b *strata.Cluster) {
			fill(t, b, 0, 1)
			for _, err := range m.Records(t.Context()) {
				require.NoError(t, err)
				require.NoError(t, m.Close())
			}
		}},
		"shutdown that does not wait for a loop body": {member, func(t *testing.T, b *strata.Cluster) {
			fill(t, b, 0, 1)
			for r, err := range m.Records(t.Context()) {
				require.NoError(t, err)
				done := make(chan error)
				go func() { done <- m.Shutdown(ended) }()
				require.ErrorIs(t, <-done, context.Canceled)
				require.ErrorIs(t, m.Commit(t.Context(), r), consumer.ErrClosed)
			}
		}},
		"close in a callback of a commit": {member, func(t *testing.T, _ *strata.Cluster) {
			done := make(chan error)
			m.CommitAsync(record.Offsets{tp(0): 5}, func(record.Offsets, error) { done <- m.Close() })
			require.NoError(t, <-done)
			require.NoError(t, m.Close())
		}},
		"close in OnRevoked": {revokes(func() { _ = m.Close() }), func(t *testing.T, _ *strata.Cluster) {
			require.NoError(t, m.Subscribe(t.Context()))
			_, err := m.Poll(t.Context())
			require.ErrorIs(t, err, consumer.ErrClosed)
			require.NoError(t, m.Close())
		}},
		"panic in OnRevoked": {revokes(func() { panic("no") }), func(t *testing.T, _ *strata.Cluster) {
			aside(func() { _ = m.Close() })
		}},
		"goexit in OnRevoked": {revokes(runtime.Goexit), func(t *testing.T, _ *strata.Cluster) {
			aside(func() { _ = m.Close() })
		}},
		"close of the cluster first": {member, func(t *testing.T, b *strata.Cluster) {
			require.NoError(t, b.Close())
			_ = m.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				c := newClient(t, b)
				m = open(t, c, test.cfg)
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
				defer stop()
				_, err := m.Poll(ctx) // until it has its partition
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Len(t, m.Assignment(), 1)
				test.end(t, b)
				c.requireEnded(t, 1)
			})
		})
	}
}

func TestSessionEndsWhenAConsumerCannotStart(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := newClient(t, b)
		_, err := consumer.New(c, consumer.Config{Topics: []string{"no-such-topic"}})
		require.ErrorIs(t, err, consumer.ErrUnknownTopic)
		c.requireEnded(t, 1)
		_, err = consumer.New(c, consumer.Config{Group: "g", Topics: []string{"no-such-topic"}})
		require.ErrorIs(t, err, consumer.ErrUnknownTopic)
		c.requireEnded(t, 2)
		_, err = consumer.New(c, consumer.Config{Group: "g"})
		require.ErrorAs(t, err, new(*consumer.ConfigError))
		c.requireEnded(t, 2) // none is opened for bad settings
		only := logsOpener{c}
		_, err = consumer.New(only, consumer.Config{Group: "g", Topics: []string{"t"}})
		require.ErrorAs(t, err, new(*consumer.ConfigError), "its sessions have no groups")
		c.requireEnded(t, 3)
	})
}

// logsOpener is an Opener whose sessions have no groups.
type logsOpener struct{ *client }

func (o logsOpener) OpenSession(ctx context.Context, s consumer.Session) (consumer.LogBackend, func(), error) {
	b, end, err := o.client.OpenSession(ctx, s)
	return struct{ consumer.LogBackend }{b}, end, err
}

func TestSessionEndsHoweverAReaderEnds(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		c := newClient(t, b)
		n := 0
		for _, read := range readers {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range read(ctx, c, consumer.ReadConfig{Topic: "t"}) {
				break
			}
			aside(func() {
				for range read(ctx, c, consumer.ReadConfig{Topic: "t"}) {
					panic("no")
				}
			})
			aside(func() {
				for range read(ctx, c, consumer.ReadConfig{Topic: "t", Last: 1}) {
					runtime.Goexit()
				}
			})
			for range read(ctx, c, consumer.ReadConfig{Topic: "t"}) {
				cancel()
			}
			for _, err := range read(t.Context(), c, consumer.ReadConfig{Topic: "no-such-topic"}) {
				require.ErrorIs(t, err, consumer.ErrUnknownTopic)
			}
			n += 5
			c.requireEnded(t, n)
			for _, err := range read(t.Context(), c, consumer.ReadConfig{}) {
				require.ErrorAs(t, err, new(*consumer.ConfigError))
			}
			c.requireEnded(t, n)
		}
	})
}

// slowLogs is a backend that looks offsets up when release is closed, whether ctx has ended or not.
type slowLogs struct {
	*strata.Cluster
	release chan struct{}
}

func (s *slowLogs) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	if at[tp(0)] >= 0 { // by time
		<-s.release
	}
	return s.Cluster.ListOffsets(ctx, at, iso)
}

func TestSessionOutlastsACallThatIsUnderWayWhenItsConsumerIsClosed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		slow := &slowLogs{b, make(chan struct{})}
		c := newClient(t, slow)
		m := open(t, c, consumer.Config{Topics: []string{"t"}})
		fill(t, b, 0, 1)
		read(t, m, 1)
		sought := make(chan error, 1)
		go func() { sought <- m.SeekTime(t.Context(), time.Now(), tp(0)) }()
		synctest.Wait()
		require.NoError(t, m.Close())
		opened, ended := c.counts()
		require.Equal(t, []int{1, 0}, []int{opened, ended})
		close(slow.release)
		require.ErrorIs(t, <-sought, consumer.ErrClosed)
		c.requireEnded(t, 1)
		require.ErrorIs(t, m.Subscribe(t.Context(), "t"), consumer.ErrClosed, "it makes no call any more")
	})
}

// A group's member that joins waits for the others, which learn of that from their heartbeats.
func TestMembersThatShareAClientGetTheirFirstRecordsPromptly(t *testing.T) {
	for _, protocol := range []consumer.Protocol{consumer.ProtocolClassic, consumer.ProtocolConsumer} {
		t.Run(protocol.String(), func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				c := newSerialClient(t, b)
				cfg := consumer.Config{Group: "g", Topics: []string{"t"}, Protocol: protocol}
				first := poll(t, open(t, c, cfg), nil)
				time.Sleep(20 * time.Second)
				begun := time.Now()
				got := make(chan time.Duration, 1)
				second := poll(t, open(t, c, cfg), func(record.Record) {
					select {
					case got <- time.Since(begun):
					default: // not the first one
					}
				})
				p, err := producer.New(b, producer.Config{})
				require.NoError(t, err)
				for i := int32(0); len(got) == 0; i++ {
					_, err := p.Send(t.Context(), record.String("t", "", "v").To(i%2))
					require.NoError(t, err)
					time.Sleep(100 * time.Millisecond)
				}
				require.LessOrEqual(t, <-got, 5*time.Second)
				require.NoError(t, p.Close())
				second.leave(t)
				first.leave(t)
				c.requireEnded(t, 2)
			})
		})
	}
}

func TestIdleReaderDelaysNoOtherReaderOfItsClient(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "idle", topic.Config{}))
		c := newSerialClient(t, b)
		idle := open(t, c, consumer.Config{Topics: []string{"idle"}})
		m := poll(t, idle, nil)
		ctx, stop := context.WithCancel(t.Context())
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			for range consumer.Follow(ctx, c, consumer.ReadConfig{Topic: "idle"}) {
			}
		}()
		synctest.Wait()
		got := make(chan time.Duration, 200)
		busy := poll(t, open(t, c, consumer.Config{Topics: []string{"t"}}), func(r record.Record) { got <- time.Since(r.Timestamp) })
		busyFollowed := make(chan struct{})
		go func() {
			defer close(busyFollowed)
			for r := range consumer.Follow(ctx, c, consumer.ReadConfig{Topic: "t"}) {
				got <- time.Since(r.Timestamp)
			}
		}()
		p, err := producer.New(b, producer.Config{})
		require.NoError(t, err)
		for range 100 {
			_, err := p.Send(t.Context(), record.Record{Topic: "t", Value: []byte("v"), Timestamp: time.Now()})
			require.NoError(t, err)
			time.Sleep(37 * time.Millisecond)
		}
		require.Len(t, got, 200)
		for range 200 {
			require.LessOrEqual(t, <-got, 5*time.Millisecond)
		}
		require.NoError(t, p.Close())
		stop()
		<-followed
		<-busyFollowed
		busy.leave(t)
		m.leave(t)
		c.requireEnded(t, 4)
	})
}
