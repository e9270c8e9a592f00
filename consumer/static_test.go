package consumer_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// owned returns the partitions of a group's members, and checks that each member subscribes to the
// topics of its own.
func owned(t *testing.T, b *strata.Cluster, g string) (all []record.TopicPartition) {
	t.Helper()
	info, err := b.Group(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, group.Stable, info.State)
	for _, m := range info.Members {
		for _, tp := range m.Assignment {
			require.Contains(t, m.Topics, tp.Topic)
		}
		all = append(all, m.Assignment...)
	}
	return all
}

// all returns n partitions of each topic.
func all(n int32, topics ...string) (tps []record.TopicPartition) {
	for _, name := range topics {
		for p := range n {
			tps = append(tps, record.TopicPartition{Topic: name, Partition: p})
		}
	}
	return tps
}

// Changes while a static member was away, and changes after its return, reach the group. No other
// event makes the group rebalance.
func TestStaticMemberThatComesBackSeesThatTheAssignmentDoesNotFit(t *testing.T) {
	ctx := context.Background()
	grow := func(t *testing.T, b *strata.Cluster) { require.NoError(t, b.AddPartitions(ctx, "t", 4)) }
	create := func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(ctx, "t2", topic.Config{Partitions: 2}))
	}
	again := func(partitions int) func(*testing.T, *strata.Cluster) {
		return func(t *testing.T, b *strata.Cluster) {
			require.NoError(t, b.DeleteTopic(ctx, "t"))
			require.NoError(t, b.CreateTopic(ctx, "t", topic.Config{Partitions: partitions}))
		}
	}
	topics := func(names ...string) func(*consumer.Config) {
		return func(cfg *consumer.Config) { cfg.Topics = names }
	}
	pattern := func(cfg *consumer.Config) { cfg.Topics, cfg.TopicPattern = nil, regexp.MustCompile("t.*") }
	eager := func(a assignor.Assignor) func(*consumer.Config) {
		return func(cfg *consumer.Config) { cfg.Assignors = []assignor.Assignor{a} }
	}
	for name, v := range map[string]struct {
		// first changes both members, second the members that return
		first, second func(*consumer.Config)
		away, later   func(*testing.T, *strata.Cluster)
		want          []record.TopicPartition
	}{
		"partitions are added while it is away":          {away: grow, want: all(4, "t")},
		"partitions are added later":                     {later: grow, want: all(4, "t")},
		"partitions are added, range":                    {first: eager(assignor.Range()), away: grow, want: all(4, "t")},
		"partitions are added, sticky":                   {first: eager(assignor.Sticky()), away: grow, want: all(4, "t")},
		"the topic comes again larger":                   {away: again(3), want: all(3, "t")},
		"the topic comes again larger later":             {later: again(3), want: all(3, "t")},
		"the topic comes again smaller":                  {away: again(1), want: all(1, "t")},
		"a topic comes that the pattern matches":         {first: pattern, away: create, want: all(2, "t", "t2")},
		"a topic comes that the pattern matches, later":  {first: pattern, later: create, want: all(2, "t", "t2")},
		"it subscribes to more":                          {second: topics("t", "u"), want: all(2, "t", "u")},
		"it subscribes to more, range":                   {first: eager(assignor.Range()), second: topics("t", "u"), want: all(2, "t", "u")},
		"it subscribes to more, sticky":                  {first: eager(assignor.Sticky()), second: topics("t", "u"), want: all(2, "t", "u")},
		"it subscribes to another":                       {second: topics("u"), want: all(2, "t", "u")},
		"it subscribes to another, range":                {first: eager(assignor.Range()), second: topics("u"), want: all(2, "t", "u")},
		"it subscribes to one that comes later":          {second: topics("t", "t2"), later: create, want: all(2, "t", "t2")},
		"it subscribes to more, partitions come to that": {second: topics("t", "u"), later: grow, want: append(all(4, "t"), all(2, "u")...)},
	} {
		for _, who := range []string{"the leader", "a follower", "all of them"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					require.NoError(t, b.CreateTopic(ctx, "u", topic.Config{Partitions: 2}))
					start := func(instance string, edits ...func(*consumer.Config)) *member {
						cfg := config(consumer.CommitProcessed)
						cfg.InstanceID, cfg.AllowUnknownTopics = instance, true
						for _, edit := range edits {
							if edit != nil {
								edit(&cfg)
							}
						}
						m := poll(t, open(t, b, cfg), nil)
						time.Sleep(20 * time.Second)
						return m
					}
					members := map[string]*member{"one": start("one", v.first), "two": start("two", v.first)}
					back := map[string][]string{"the leader": {"one"}, "a follower": {"two"}, "all of them": {"one", "two"}}[who]
					for _, instance := range back {
						members[instance].leave(t)
					}
					if v.away != nil {
						v.away(t, b)
					}
					for _, instance := range back {
						members[instance] = start(instance, v.first, v.second)
					}
					if v.later != nil {
						time.Sleep(10 * time.Minute)
						v.later(t, b)
					}
					time.Sleep(time.Minute)
					want := v.want
					if who == "all of them" && name[:len("it subscribes to a")] == "it subscribes to a" {
						want = all(2, "u") // no member reads t any more
					}
					require.ElementsMatch(t, want, owned(t, b, "g"))
					for _, m := range members {
						m.leave(t)
					}
				})
			})
		}
	}
}

func TestStaticMemberThatPollsAgainSeesPartitionsThatCameMeanwhile(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) { pollAgain(t, b, b) })
}

// Kafka does not return the generation of a classic group.
func TestStaticMemberSeesNewPartitionsWithoutTheGenerationOfItsGroup(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) { pollAgain(t, b, &undated{b}) })
}

// undated is a cluster whose groups have an unknown generation.
type undated struct{ *strata.Cluster }

func (u *undated) Group(ctx context.Context, id string) (group.Info, error) {
	info, err := u.Cluster.Group(ctx, id)
	info.Generation = -1
	return info, err
}

// pollAgain adds partitions while the only member, a static one, does not poll for long.
func pollAgain(t *testing.T, b *strata.Cluster, through consumer.LogBackend) {
	cfg := config(consumer.CommitProcessed)
	cfg.InstanceID, cfg.MaxPollInterval = "one", 5*time.Second
	fill(t, b, 0, 1)
	slow := true
	m := poll(t, open(t, through, cfg), func(record.Record) {
		if slow {
			slow = false
			time.Sleep(20 * time.Second) // beyond MaxPollInterval, within the session
			require.NoError(t, b.AddPartitions(context.Background(), "t", 3))
		}
	})
	time.Sleep(time.Hour)
	require.Len(t, m.Assignment(), 3)
	m.leave(t)
}

// Records of a topic to which the member no longer subscribes are not handed out, although the
// group still assigns the topic to the member.
func TestStaticMemberThatComesBackIsNotHandedWhatItDoesNotSubscribeTo(t *testing.T) {
	for _, a := range []assignor.Assignor{assignor.CooperativeSticky(), assignor.Range()} {
		t.Run(a.Name(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				require.NoError(t, b.CreateTopic(t.Context(), "u", topic.Config{}))
				cfg := config(consumer.CommitProcessed)
				cfg.InstanceID, cfg.Assignors = "one", []assignor.Assignor{a}
				m := poll(t, open(t, b, cfg), nil)
				waitStable(t, b, "g", 1)
				m.leave(t)
				fill(t, b, 0, 3)
				cfg.Topics = []string{"u"}
				cfg.OnAssigned = func(_ context.Context, tps []record.TopicPartition) {
					require.Equal(t, all(1, "u"), tps)
				}
				m = poll(t, open(t, b, cfg), func(r record.Record) { t.Errorf("handed out %s-%d", r.Topic, r.Partition) })
				time.Sleep(time.Minute)
				require.Equal(t, all(1, "u"), m.Assignment())
				m.leave(t)
			})
		})
	}
}

// A rolling restart of static members causes no rebalance, whichever member leads, also when there
// are fewer partitions than members.
func TestStaticMembersComeBackOneAfterTheOtherWithoutARebalance(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		members := map[string]*member{}
		start := func(instance string) {
			cfg := config(consumer.CommitProcessed)
			cfg.InstanceID = instance
			members[instance] = poll(t, open(t, b, cfg), nil)
		}
		for _, instance := range []string{"one", "two", "three"} {
			start(instance)
		}
		time.Sleep(time.Minute)
		before := waitStable(t, b, "g", 3)
		for _, instance := range []string{"one", "two", "three"} {
			members[instance].leave(t)
			start(instance)
			time.Sleep(time.Minute)
		}
		require.Equal(t, before.Generation, waitStable(t, b, "g", 3).Generation)
		require.ElementsMatch(t, all(2, "t"), owned(t, b, "g"))
		for _, m := range members {
			m.leave(t)
		}
	})
}

// A leader that returned watches the topics of all members as before. It does not first have to
// read the group's assignment.
func TestStaticLeaderThatCameBackRebalancesAtOnceForNewPartitions(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "u", topic.Config{}))
		cfg := config(consumer.CommitProcessed)
		cfg.InstanceID = "leader"
		leader := poll(t, open(t, b, cfg), nil)
		waitStable(t, b, "g", 1)
		other := cfg
		other.InstanceID, other.Topics = "other", []string{"u"}
		follower := poll(t, open(t, b, other), nil)
		waitStable(t, b, "g", 2)
		leader.leave(t)
		leader = poll(t, open(t, b, cfg), nil)
		time.Sleep(time.Minute)
		before := waitStable(t, b, "g", 2)
		require.NoError(t, b.AddPartitions(t.Context(), "u", 2))
		time.Sleep(time.Second) // a third of a heartbeat interval
		wired.Settle(t)
		info, err := b.Group(t.Context(), "g")
		require.NoError(t, err)
		require.NotEqual(t, [2]any{group.Stable, before.Generation}, [2]any{info.State, info.Generation})
		leader.leave(t)
		follower.leave(t)
	})
}
