package replication

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// collect gathers the events of a topic's partitions and of brokers until stop, which returns
// them.
func collect(t *testing.T, c *Cluster, name string) (stop func() []Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events := c.Events(ctx)
	var got []Event
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range events {
			if e.Partition.Topic == name || e.Partition.Topic == "" {
				got = append(got, e)
			}
		}
	})
	return func() []Event {
		synctest.Wait() // all events so far are delivered
		cancel()
		wg.Wait()
		return got
	}
}

func lines(events []Event) (all []string) {
	for _, e := range events {
		all = append(all, e.String())
	}
	return all
}

// one creates a topic of one partition with three replicas. The first replica is on broker 2.
func one(t *testing.T, c *Cluster) tp {
	t.Helper()
	cfg := topic.Config{Assignment: [][]int32{{2, 3, 1}}, ReplicationFactor: 3, Properties: properties("min.insync.replicas", "2")}
	require.NoError(t, c.CreateTopic(t.Context(), "orders", cfg))
	return at("orders", 0)
}

func TestEventsTellTheLifeOfALeaderInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		tp := one(t, c)
		require.NoError(t, all(c, tp, "a").Err)
		stop := collect(t, c, "orders")
		require.NoError(t, c.KillBroker(2))
		require.NoError(t, all(c, tp, "b").Err)
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		require.NoError(t, c.StopBroker(t.Context(), 3))
		require.NoError(t, c.StartBroker(t.Context(), 3))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		events := stop()
		require.Equal(t, []string{
			"broker 2 killed",
			"broker 2 fenced",
			"orders-0: [2] left the in-sync set, which is [3 1]",
			"orders-0: broker 3 leads in epoch 1",
			"broker 2 started",
			"orders-0: [2] joined the in-sync set, which is [1 2 3]",
			"broker 3 stopping",
			"orders-0: [3] left the in-sync set, which is [1 2]",
			"orders-0: broker 2 leads in epoch 2",
			"broker 3 fenced",
			"broker 3 stopped",
			"broker 3 started",
			"orders-0: [3] joined the in-sync set, which is [1 2 3]",
		}, lines(events))
		for i, e := range events {
			require.NotZero(t, e.Time)
			if e.Kind != BrokerKilled && e.Kind != BrokerStopped {
				require.NotZero(t, e.Version)
			}
			require.Truef(t, i == 0 || e.Number > events[i-1].Number, "%+v", events)
		}
	})
}

// isolate cuts the fetches of followers from a leader.
func isolate(c *Cluster, leader int32) (mend func()) {
	others := []int32{leader%3 + 1, (leader+1)%3 + 1}
	for _, id := range others {
		c.Network().Cut(NetworkPath{From: id, To: leader})
	}
	return func() {
		for _, id := range others {
			c.Network().Mend(NetworkPath{From: id, To: leader})
		}
	}
}

// A leader loses power with records that no other replica has, and truncates them when it returns.
// An election without an in-sync replica is reported as unclean.
func TestEventsTellWhatIsCutAndWhatIsUnclean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThreePatient(t)
		tp := one(t, c)
		require.NoError(t, c.AlterTopic(t.Context(), "orders", properties("unclean.leader.election.enable", "true", "min.insync.replicas", "1")))
		require.NoError(t, all(c, tp, "a", "b").Err)
		stop := collect(t, c, "orders")
		mend := isolate(c, 2)
		require.NoError(t, tryAcks(c, tp, record.AcksLeader, "only on 2").Err)
		require.NoError(t, c.KillBroker(2))
		mend()
		require.NoError(t, all(c, tp, "in its place").Err)
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		synctest.Wait()
		mend = isolate(c, 3)
		require.NoError(t, all(c, tp, "acknowledged by all", "of one").Err, "who hangs leaves the set")
		require.NoError(t, c.WaitISR(t.Context(), tp, 3))
		time.Sleep(2 * c.cfg.HighWatermarkInterval) // broker 3 saves its high watermark
		require.NoError(t, c.KillBroker(3))
		mend()
		require.NoError(t, all(c, tp, "in their place").Err)
		require.NoError(t, c.WaitISR(t.Context(), tp, 1, 2))
		require.NoError(t, c.StartBroker(t.Context(), 3))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		events := stop()
		require.Equal(t, []string{
			"broker 2 killed",
			"broker 2 fenced",
			"orders-0: [2] left the in-sync set, which is [3 1]",
			"orders-0: broker 3 leads in epoch 1",
			"broker 2 started",
			"orders-0: broker 2 cut its log from 3 to 2",
			"orders-0: [2] joined the in-sync set, which is [1 2 3]",
			"orders-0: [1 2] left the in-sync set, which is [3]",
			"broker 3 killed",
			"broker 3 fenced",
			"orders-0: [3] left the in-sync set, which is [2]",
			"orders-0: broker 2 leads in epoch 2, elected uncleanly",
			"orders-0: [2] joined the in-sync set, which is [2]",
			"orders-0: [1] joined the in-sync set, which is [1 2]",
			"broker 3 started",
			"orders-0: broker 3 cut its log from 5 to 3, 2 below its high watermark",
			"orders-0: [3] joined the in-sync set, which is [1 2 3]",
		}, lines(events))
		for _, e := range events {
			require.Equal(t, e.LeaderEpoch == 2 && e.Kind == LeaderElected, e.Unclean)
		}
	})
}

// The next leader's disk is slow to begin its epoch. The event of the election comes at the time
// of the change, and not when the leader can lead.
func TestEventsOfAChangeAreToldBeforeBrokersFollowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		tp := one(t, c)
		require.NoError(t, all(c, tp, "a").Err)
		stop := collect(t, c, "orders")
		defer ds[2].Inject(vfs.Fault{Pattern: "leader-epoch-checkpoint*", Times: vfs.Always, Delay: time.Second})()
		begin := time.Now()
		require.NoError(t, c.KillBroker(2))
		require.Positive(t, time.Since(begin), "broker 3 takes its time")
		events := stop()
		i := slices.IndexFunc(events, func(e Event) bool { return e.Kind == LeaderElected })
		require.EqualValues(t, 3, events[i].Broker)
		require.Equal(t, begin, events[i].Time)
	})
}

// A reader that does not read blocks no other caller, and receives the number of events it missed.
func TestReaderOfEventsThatIsTooSlowIsToldSo(t *testing.T) {
	c := openWith(t, Config{Brokers: 2})
	const partitions = 1000
	assignment := make([][]int32, partitions)
	for i := range assignment {
		assignment[i] = []int32{2}
	}
	require.NoError(t, c.CreateTopic(t.Context(), "many", topic.Config{Assignment: assignment}))
	events := c.Events(t.Context())
	const lives = 7 // each emits more than two events a partition: LeaderLost and LeaderElected
	for range lives {
		require.NoError(t, c.KillBroker(2))
		require.NoError(t, c.StartBroker(t.Context(), 2))
	}
	var missed, number int64
	told := 0
	for e := range events {
		if e.Kind == EventsMissed {
			require.Zero(t, missed, "once: nobody writes meanwhile")
			missed = e.Missed
			require.Equal(t, missed, e.Number)
		} else {
			require.Equal(t, number+1, e.Number)
			told++
		}
		if number = e.Number; told == maxEvents {
			break
		}
	}
	require.Positive(t, missed)
	require.GreaterOrEqual(t, missed+maxEvents, int64(lives*2*partitions))
	e := next(t, c, events)
	require.Equal(t, number+1, e.Number, "the iterator goes on where it was")
}

// next kills broker 1, the controller, and returns the next event.
func next(t *testing.T, c *Cluster, events func(func(Event) bool)) (got Event) {
	t.Helper()
	require.NoError(t, c.KillBroker(1))
	for e := range events {
		return e
	}
	t.Fatal("no event")
	return got
}

func TestEventsEndWithTheClusterAndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(Config{Brokers: 2})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, events := range []func(func(Event) bool){c.Events(ctx), c.Events(t.Context())} {
			wg.Go(func() {
				for range events {
				}
			})
		}
		synctest.Wait()
		cancel()
		require.NoError(t, c.Close())
		wg.Wait()
		for range c.Events(t.Context()) {
			t.Fatal("closed")
		}
	})
}

func TestWaitForAnInSyncSetEndsWhenItIsThatOrCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		tp := one(t, c)
		require.NoError(t, all(c, tp, "a").Err)
		require.NoError(t, c.WaitISR(t.Context(), tp, 3, 1, 2))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, set := range [][]int32{{2, 3}, {1, 2, 3, 4}} { // fewer and more than exist
			require.ErrorIs(t, c.WaitISR(ctx, tp, set...), context.DeadlineExceeded, fmt.Sprint(set))
		}
		require.ErrorIs(t, c.WaitISR(t.Context(), at("orders", 1)), ErrUnknownTopic)
		ended := make(chan error, 2)
		go func() { ended <- c.WaitISR(t.Context(), tp, 2, 3) }()
		synctest.Wait()
		require.NoError(t, c.KillBroker(1))
		require.NoError(t, <-ended)
		go func() { ended <- c.WaitISR(t.Context(), tp) }()
		synctest.Wait()
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		require.ErrorIs(t, <-ended, ErrUnknownTopic)
		require.True(t, slices.Contains(c.Brokers(), 2))
	})
}
