package assignor

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

func subscribers(topics ...string) func(ids ...string) []Member {
	return func(ids ...string) (out []Member) {
		for _, id := range ids {
			out = append(out, Member{ID: id, Subscription: Subscription{Topics: topics, Generation: -1}})
		}
		return out
	}
}

func assign(t testing.TB, a Assignor, members []Member, partitions map[string]int32) map[string][]record.TopicPartition {
	t.Helper()
	out, err := a.Assign(members, partitions)
	require.NoError(t, err)
	for id := range out {
		sortPartitions(out[id])
		if len(out[id]) == 0 {
			delete(out, id)
		}
	}
	return out
}

type shares = map[string][]record.TopicPartition

func join(parts ...[]record.TopicPartition) (out []record.TopicPartition) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func TestTwoCopiesOfAProgramEndWithThreePartitionsEach(t *testing.T) {
	xy := map[string]int32{"X": 3, "Y": 3}
	got := assign(t, Sticky(), subscribers("X", "Y")("a", "b"), xy)
	require.Equal(t, shares{"a": join(tps("X", 0, 2), tps("Y", 1)), "b": join(tps("X", 1), tps("Y", 0, 2))}, got)
	// Kafka's default assigns topic by topic and ends with four and two.
	got = assign(t, Range(), subscribers("X", "Y")("a", "b"), xy)
	require.Equal(t, shares{"a": join(tps("X", 0, 1), tps("Y", 0, 1)), "b": join(tps("X", 2), tps("Y", 2))}, got)
}

func TestRangeGivesStaticMembersTheFirstPartitions(t *testing.T) {
	members := subscribers("t")("a", "b", "z")
	members[2].InstanceID = "i"
	require.Equal(t, shares{"z": tps("t", 0, 1), "a": tps("t", 2), "b": tps("t", 3)}, assign(t, Range(), members, map[string]int32{"t": 4}))
}

func TestRoundRobinPassesOverMembersThatDoNotSubscribe(t *testing.T) {
	members := append(subscribers("t0")("c0"), subscribers("t0", "t1")("c1")...)
	members = append(members, subscribers("t0", "t1", "t2")("c2")...)
	got := assign(t, RoundRobin(), members, map[string]int32{"t0": 1, "t1": 2, "t2": 3})
	// the example in Kafka's javadoc
	require.Equal(t, shares{"c0": tps("t0", 0), "c1": tps("t1", 0), "c2": join(tps("t1", 1), tps("t2", 0, 1, 2))}, got)
}

func TestStickyWithDifferentSubscriptionsBalancesBetterThanRoundRobin(t *testing.T) {
	members := append(subscribers("t0")("c0"), subscribers("t0", "t1")("c1")...)
	members = append(members, subscribers("t0", "t1", "t2")("c2")...)
	got := assign(t, Sticky(), members, map[string]int32{"t0": 1, "t1": 2, "t2": 3})
	// the example in Kafka's javadoc
	require.Equal(t, shares{"c0": tps("t0", 0), "c1": tps("t1", 0, 1), "c2": tps("t2", 0, 1, 2)}, got)
}

// remember sets each member's assignment as its claim of the next round.
func remember(a Assignor, members []Member, out shares, generation int32) []Member {
	for i := range members {
		m := &members[i]
		m.Owned, m.Generation = out[m.ID], generation
		if u, ok := a.(UserDataAssignor); ok {
			m.UserData = u.SubscriptionUserData(m.Owned, generation)
		}
	}
	return members
}

func TestStickyMovesOnlyWhatALeaverHad(t *testing.T) {
	for _, a := range []Assignor{Sticky(), CooperativeSticky()} {
		members := subscribers("t0", "t1", "t2", "t3")("c0", "c1", "c2")
		partitions := map[string]int32{"t0": 2, "t1": 2, "t2": 2, "t3": 2}
		first := assign(t, a, members, partitions)
		require.Equal(t, shares{"c0": join(tps("t0", 0), tps("t1", 1), tps("t3", 0)), "c1": join(tps("t0", 1), tps("t2", 0), tps("t3", 1)), "c2": join(tps("t1", 0), tps("t2", 1))}, first)
		second := assign(t, a, remember(a, members, first, 1)[:2], partitions) // c2 left
		require.Equal(t, shares{"c0": join(tps("t0", 0), tps("t1", 0, 1), tps("t3", 0)), "c1": join(tps("t0", 1), tps("t2", 0, 1), tps("t3", 1))}, second)
	}
}

func TestStickyKeepsTheFirstPartitionsUpToTheQuota(t *testing.T) {
	members := subscribers("t")("a", "b", "c")
	for i, owned := range [][]int32{{0, 1, 2, 3, 4}, nil, nil} {
		members[i].UserData = Sticky().(UserDataAssignor).SubscriptionUserData(tps("t", owned...), 1)
	}
	require.Equal(t, shares{"a": tps("t", 0, 1), "b": tps("t", 2, 4), "c": tps("t", 3)}, assign(t, Sticky(), members, map[string]int32{"t": 5}))
}

func TestCooperativeMoveTakesTwoRounds(t *testing.T) {
	a, partitions := CooperativeSticky(), map[string]int32{"t": 4}
	members := subscribers("t")("a", "b")
	members[0].Owned, members[0].Generation = tps("t", 0, 1, 2, 3), 1
	first := assign(t, a, members, partitions)
	require.Equal(t, shares{"a": tps("t", 0, 1)}, first) // 2 and 3 are being moved
	second := assign(t, a, remember(a, members, first, 2), partitions)
	require.Equal(t, shares{"a": tps("t", 0, 1), "b": tps("t", 2, 3)}, second)
}

func TestCooperativeMoveTakesTwoRoundsWithDifferentSubscriptions(t *testing.T) {
	a, partitions := CooperativeSticky(), map[string]int32{"t": 4, "u": 1}
	members := append(subscribers("t")("a"), subscribers("t", "u")("b")...)
	members[0].Owned, members[0].Generation = tps("t", 0, 1, 2, 3), 1
	first := assign(t, a, members, partitions)
	require.Len(t, first["a"], 3)
	require.Equal(t, tps("u", 0), first["b"])
	second := assign(t, a, remember(a, members, first, 2), partitions)
	require.Len(t, join(second["a"], second["b"]), 5)
}

func TestHigherGenerationWinsAClaim(t *testing.T) {
	members := subscribers("t")("a", "b")
	members[0].Owned, members[0].Generation = tps("t", 0, 1), 4
	members[1].Owned, members[1].Generation = tps("t", 0), 5
	got := assign(t, CooperativeSticky(), members, map[string]int32{"t": 2})
	require.Equal(t, shares{"a": tps("t", 1), "b": tps("t", 0)}, got)
}

// Three members claim partitions of three generations, in every order of the list. The newest
// claim counts, and a partition that one member claims twice counts once.
func TestNewestOfThreeClaimsCountsInAnyOrder(t *testing.T) {
	for _, generations := range [][3]int32{{3, 4, 5}, {3, 5, 4}, {4, 3, 5}, {4, 5, 3}, {5, 3, 4}, {5, 4, 3}} {
		members := subscribers("t")("a", "b", "c")
		want := shares{}
		for i := range members {
			own := int32(i + 1)
			members[i].Owned, members[i].Generation = tps("t", 0, own, own), generations[i]
			want[members[i].ID] = tps("t", own)
			if generations[i] == 5 {
				want[members[i].ID] = tps("t", 0, own)
			}
		}
		require.Equal(t, want, assign(t, CooperativeSticky(), members, map[string]int32{"t": 4}), "%v", generations)
	}
}

// Claims of partitions that do not exist, and of topics that a member does not subscribe to any
// more, give it nothing.
func TestClaimsOfNothingCountForNothing(t *testing.T) {
	for _, mixed := range []bool{false, true} { // whether members subscribe to different topics
		for _, a := range []Assignor{Sticky(), CooperativeSticky()} {
			members := subscribers("t")("a", "b", "c")
			partitions := map[string]int32{"t": 3, "v": 2}
			if mixed {
				members[2].Topics = []string{"t", "u"}
				partitions["u"] = 1
			}
			for i := range members {
				claims := []record.TopicPartition{{Topic: "t", Partition: -1 - int32(i)}, {Topic: "t", Partition: 3 + int32(i)}, {Topic: "v"}, {Topic: "gone"}}
				members[i].Owned, members[i].Generation = claims, 5
				members[i].UserData = Sticky().(UserDataAssignor).SubscriptionUserData(claims, 5)
			}
			got := assign(t, a, members, partitions)
			all := join(got["a"], got["b"], got["c"])
			want := tps("t", 0, 1, 2)
			if mixed {
				want = append(want, tps("u", 0)...)
			}
			require.ElementsMatch(t, want, all, "%s, mixed %v", a.Name(), mixed)
		}
	}
}

// A former owner that does not subscribe to the topic any more does not get its partition back.
func TestFormerOwnerThatUnsubscribedGetsNothingBack(t *testing.T) {
	members := []Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for i, topics := range [][]string{{"u"}, {"t"}, {"t"}} {
		members[i].Topics = topics
		owned, generation := tps("t", 0), int32(4)
		if i == 2 {
			owned, generation = tps("t", 0, 1, 2, 3), 5
		}
		if i != 1 {
			members[i].UserData = Sticky().(UserDataAssignor).SubscriptionUserData(owned, generation)
		}
	}
	got := assign(t, Sticky(), members, map[string]int32{"t": 4, "u": 1})
	require.Equal(t, tps("u", 0), got["a"])
	require.Len(t, got["b"], 2)
	require.Len(t, got["c"], 2)
}

// One member has all partitions. The last of the former owners of a partition gets it back.
func TestMovedPartitionGoesToItsLastFormerOwner(t *testing.T) {
	for _, last := range []int{0, 1} { // "a", "b"
		members := []Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}
		for i := range members {
			members[i].Topics = []string{"t"}
			owned, generation := tps("t", 0), int32(3)
			switch i {
			case last:
				generation = 4
			case 2:
				owned, generation = tps("t", 0, 1, 2, 3), 5
				// the only member of u, so that loads differ
				members[i].Topics = []string{"t", "u"}
			}
			members[i].UserData = Sticky().(UserDataAssignor).SubscriptionUserData(owned, generation)
		}
		got := assign(t, Sticky(), members, map[string]int32{"t": 4, "u": 1})
		require.Contains(t, got[members[last].ID], tps("t", 0)[0], "%v", got)
	}
}

func TestPartitionClaimedTwiceInAGenerationGoesToNobodyAtOnce(t *testing.T) {
	members := subscribers("t")("a", "b")
	members[0].Owned, members[0].Generation = tps("t", 0), 5
	members[1].Owned, members[1].Generation = tps("t", 0), 5
	require.Equal(t, shares{"b": tps("t", 1)}, assign(t, CooperativeSticky(), members, map[string]int32{"t": 2}))
}

func TestUserDataOfStickyIsThatOfKafka(t *testing.T) {
	u := Sticky().(UserDataAssignor)
	p := u.SubscriptionUserData(tps("t", 1, 0), 7)
	require.Equal(t, unhex(t, "00000001"+"000174"+"00000002"+"00000000"+"00000001"+"00000007"), p)
	owned, generation := lastAssignment(&Member{Subscription: Subscription{UserData: p}})
	require.Equal(t, tps("t", 0, 1), owned)
	require.EqualValues(t, 7, generation)
	// version 0
	_, generation = lastAssignment(&Member{Subscription: Subscription{UserData: p[:len(p)-4]}})
	require.EqualValues(t, -1, generation)
	require.Empty(t, u.SubscriptionUserData(nil, -1))
	require.Equal(t, []byte{0, 0, 0, 9}, CooperativeSticky().(UserDataAssignor).SubscriptionUserData(nil, 9))
}

func TestMembersMayStayOnlyIfAllTheirAssignorsAreCooperative(t *testing.T) {
	require.True(t, AllCooperative([]Assignor{CooperativeSticky()}))
	require.False(t, AllCooperative([]Assignor{CooperativeSticky(), Range()}))
	require.False(t, AllCooperative([]Assignor{Sticky()}))
	require.False(t, AllCooperative([]Assignor{CooperativeSticky(), CooperativeSticky(), notCooperative{CooperativeSticky()}}))
	require.False(t, AllCooperative(nil))
}

// notCooperative is an assignor that implements Cooperative and returns false.
type notCooperative struct{ Assignor }

func (notCooperative) Cooperative() bool { return false }

func TestSubscriptionCarriesOwnedPartitionsWhereTheAssignorLooksForThem(t *testing.T) {
	held := tps("t", 0)
	parse := func(a Assignor) Subscription {
		s, err := ParseSubscription(SubscriptionFor(a, []string{"t"}, held, 3, "r"))
		require.NoError(t, err)
		require.Equal(t, []string{"t"}, s.Topics)
		require.Equal(t, "r", s.Rack)
		require.EqualValues(t, 3, s.Generation)
		return s
	}
	require.Equal(t, held, parse(CooperativeSticky()).Owned)
	require.Empty(t, parse(Range()).Owned)
	s := parse(Sticky())
	require.Empty(t, s.Owned)
	owned, _ := lastAssignment(&Member{Subscription: s})
	require.Equal(t, held, owned)
}

func TestAssignAllRefusesWhatABrokenAssignorSays(t *testing.T) {
	var members []JoinMember
	for _, id := range []string{"a", "b"} {
		members = append(members, JoinMember{MemberID: id, Metadata: SubscriptionFor(Range(), []string{"t"}, nil, -1, "")})
	}
	for name, out := range map[string]shares{
		"twice":          {"a": tps("t", 0), "b": tps("t", 0)},
		"not subscribed": {"a": tps("u", 0)},
		"stranger":       {"x": tps("t", 0)},
	} {
		_, err := AssignAll(fixed(out), members, map[string]int32{"t": 1})
		require.ErrorIs(t, err, ErrNoAssignment, name)
	}
	got, err := AssignAll(fixed{"a": tps("t", 0)}, members, map[string]int32{"t": 1})
	require.NoError(t, err)
	require.Len(t, got, 2)
	members[0].Metadata = []byte{1}
	_, err = AssignAll(Range(), members, map[string]int32{"t": 1})
	require.ErrorIs(t, err, ErrMalformed)
}

type fixed shares

func (fixed) Name() string { return "fixed" }
func (f fixed) Assign([]Member, map[string]int32) (map[string][]record.TopicPartition, error) {
	return f, nil
}

// No member has two partitions more than a member that could take one of them.
func TestGeneralAlgorithmEndsBalancedAndMovesNothingTheSecondTime(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		partitions := map[string]int32{}
		for i := range 5 {
			partitions[fmt.Sprint("t", i)] = int32(1 + rnd.IntN(8))
		}
		var members []Member
		for i := range 2 + rnd.IntN(6) {
			m := Member{ID: fmt.Sprint("m", i), Subscription: Subscription{Generation: -1}}
			for topic := range partitions {
				if rnd.IntN(2) == 0 {
					m.Topics = append(m.Topics, topic)
				}
			}
			members = append(members, m)
		}
		first := assign(t, Sticky(), members, partitions)
		for _, m := range members {
			for _, other := range members {
				for _, tp := range first[other.ID] {
					for _, topic := range m.Topics {
						if topic == tp.Topic && m.ID != other.ID {
							require.LessOrEqual(t, len(first[other.ID]), len(first[m.ID])+1, "seed %d: %s could have %v of %s", seed, m.ID, tp, other.ID)
						}
					}
				}
			}
		}
		require.Equal(t, first, assign(t, Sticky(), remember(Sticky(), members, first, 1), partitions), "seed %d", seed)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, a := range []Assignor{Range(), RoundRobin(), Sticky(), CooperativeSticky()} {
		for _, same := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/members=1000/partitions=5000/same=%t", a.Name(), same), func(b *testing.B) {
				partitions, topics := map[string]int32{}, []string{}
				for i := range 50 {
					topics = append(topics, fmt.Sprint("t", i))
					partitions[topics[i]] = 100
				}
				var members []Member
				for i := range 1000 {
					m := subscribers(topics...)(fmt.Sprintf("m%04d", i))[0]
					if !same {
						m.Topics = topics[:1+i%len(topics)]
					}
					members = append(members, m)
				}
				out, err := a.Assign(members, partitions)
				require.NoError(b, err)
				members = remember(a, members, out, 1)[1:] // one member left
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.Assign(members, partitions); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
