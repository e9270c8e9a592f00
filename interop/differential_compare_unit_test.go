package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// anAnswer returns an answer with every kind of value that the comparison handles specially. id
// makes the broker's ids.
func anAnswer(id byte) *kmsg.MetadataResponse {
	r := kmsg.NewPtrMetadataResponse()
	r.Version = 13
	for i, name := range []string{"a-t0", "a-t1", "other"} {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = &name, [16]byte{id, byte(i)}
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Replicas, p.ISR = []int32{1}, []int32{1}
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	return r
}

func TestPlantedDifferencesAreFound(t *testing.T) {
	w := view{prefix: "a", asked: "{}"}
	same := func(c *correspondence, theirs, ours kmsg.Response) bool { return len(c.compare(w, theirs, ours)) == 0 }
	require.True(t, same(newCorrespondence(), anAnswer(1), anAnswer(2)), "ids are each broker's own")
	for what, plant := range map[string]func(*kmsg.MetadataResponse){
		"a code":           func(r *kmsg.MetadataResponse) { r.Topics[1].ErrorCode = 3 },
		"a name":           func(r *kmsg.MetadataResponse) { r.Topics[0].Topic = ptr("a-t2") },
		"a list":           func(r *kmsg.MetadataResponse) { r.Topics[0].Partitions[0].ISR = nil },
		"an empty list":    func(r *kmsg.MetadataResponse) { r.Topics[0].Partitions[0].OfflineReplicas = []int32{} },
		"one more":         func(r *kmsg.MetadataResponse) { r.Topics = append(r.Topics, r.Topics[0]) },
		"one less":         func(r *kmsg.MetadataResponse) { r.Topics = r.Topics[1:] },
		"no id":            func(r *kmsg.MetadataResponse) { r.Topics[0].TopicID = [16]byte{} },
		"the same id":      func(r *kmsg.MetadataResponse) { r.Topics[0].TopicID = r.Topics[1].TopicID },
		"an epoch":         func(r *kmsg.MetadataResponse) { r.Topics[0].Partitions[0].LeaderEpoch = 7 },
		"what is internal": func(r *kmsg.MetadataResponse) { r.Topics[0].IsInternal = true },
	} {
		other := anAnswer(2)
		plant(other)
		require.False(t, same(newCorrespondence(), anAnswer(1), other), what)
		require.False(t, same(newCorrespondence(), other, anAnswer(1)), what)
	}
	require.False(t, same(newCorrespondence(), nil, anAnswer(1)), "a closed connection")
	require.False(t, same(newCorrespondence(), anAnswer(1), nil), "a closed connection")
	require.True(t, same(newCorrespondence(), nil, nil))
	other := anAnswer(2)
	other.Topics[2].ErrorCode = 3
	require.True(t, same(newCorrespondence(), anAnswer(1), other), "the names of other scripts")

	c := newCorrespondence()
	require.True(t, same(c, anAnswer(1), anAnswer(2)))
	require.True(t, same(c, anAnswer(1), anAnswer(2)), "an id stands for the same thing again")
	require.False(t, same(c, anAnswer(1), anAnswer(3)), "an id must not stand for another thing later")
	require.False(t, same(c, anAnswer(3), anAnswer(2)))
}

func TestIDsAreTranslatedWhereverTheyOccur(t *testing.T) {
	c := newCorrespondence()
	require.True(t, c.bind("topic", [16]byte{1}, [16]byte{2}))
	require.True(t, c.bind("member", "member-of-kafka", "member-of-ours"))
	require.True(t, c.bind("producer", int64(4000), int64(5000)))
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.MemberID, commit.Topics = "member-of-kafka", []kmsg.OffsetCommitRequestTopic{{TopicID: [16]byte{1}}}
	got := translate(commit, c).(*kmsg.OffsetCommitRequest)
	require.Equal(t, "member-of-ours", got.MemberID)
	require.Equal(t, [16]byte{2}, got.Topics[0].TopicID)
	require.Equal(t, [16]byte{1}, commit.Topics[0].TopicID, "the request itself stays")

	g := newGen(1, 0, &model{})
	g.txn = &txnModel{producer: 4000, epoch: 1}
	batch := g.validRecords()
	theirs := readBatches(batch).([]any)[0].(map[string]any)
	ours := readBatches(c.batches(batch)).([]any)[0].(map[string]any)
	require.Equal(t, id{"producer", int64(4000)}, theirs["Producer"])
	require.Equal(t, id{"producer", int64(5000)}, ours["Producer"])
	require.Nil(t, ours["Sum"], "the sum is right again")
	require.Empty(t, c.diff(place{}, theirs, ours))
}

func TestRequestsFollowFromTheSeed(t *testing.T) {
	apis := map[int16]bool{}
	for seed := range uint64(300) {
		m := newModel("a")
		for _, key := range themes[len(themes)-1] {
			g, again := newGen(seed, int(key), m), newGen(seed, int(key), newModel("a"))
			version := int16(seed) % (kmsg.RequestForKey(key).MaxVersion() + 1)
			req := g.request(key, version)
			require.Equal(t, req.AppendTo(nil), again.request(key, version).AppendTo(nil))
			back := kmsg.RequestForKey(key)
			back.SetVersion(version)
			require.NoError(t, back.ReadFrom(req.AppendTo(nil)))
			require.Equal(t, req.AppendTo(nil), back.AppendTo(nil))
			apis[key] = true
		}
	}
	require.Greater(t, len(apis), 60)
}

func TestDeviationsExcuseNoMoreThanTheySay(t *testing.T) {
	all, err := parseCauses("# a comment\nwhy it is so\nMetadata 9-10 .Topics[].ErrorCode | 3 | * | \"gone\"\nMetadata 9 .Topics[].* | none | {*}\nwhy (rare) of others\nFetch * -! | closed | *")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.True(t, all[1].rare)
	require.Equal(t, "of others", all[1].why)
	d, list, whole := all[0].places[0], all[0].places[1], all[1].places[0]
	at := func(version int16) kmsg.Request { return &kmsg.MetadataRequest{Version: version} }
	difference := func(path, theirs, ours string) difference { return difference{path: path, theirs: theirs, ours: ours} }
	code := difference(".Topics[].ErrorCode", "3", "5")
	require.True(t, d.matches(at(9), `{"Topic":"gone"}`, code))
	require.True(t, d.matches(at(10), `{"Topic":"gone"}`, code))
	for what, other := range map[string]bool{
		"an earlier version":       d.matches(at(8), `{"Topic":"gone"}`, code),
		"a later version":          d.matches(at(11), `{"Topic":"gone"}`, code),
		"another API":              d.matches(&kmsg.FetchRequest{Version: 9}, `{"Topic":"gone"}`, code),
		"another request":          d.matches(at(9), `{"Topic":"here"}`, code),
		"another place":            d.matches(at(9), `{"Topic":"gone"}`, difference(".Topics[].ErrorCodes", "3", "5")),
		"another value":            d.matches(at(9), `{"Topic":"gone"}`, difference(".Topics[].ErrorCode", "33", "5")),
		"something that is there":  list.matches(at(9), "", difference(".Topics[].Partitions[]", "{}", "{}")),
		"a place beside the place": list.matches(at(9), "", difference(".Topics[]", "none", "{}")),
		"an answer":                whole.matches(&kmsg.FetchRequest{}, "", difference("", "{}", "closed")),
	} {
		require.False(t, other, what)
	}
	require.True(t, list.matches(at(9), "", difference(".Topics[].Partitions[]", "none", "{}")))
	require.True(t, whole.whole && whole.matches(&kmsg.FetchRequest{Version: 17}, "", difference("", "closed", "{}")))
	for _, wrong := range []string{"Fetch * -", "why x\nFetch *", "why x\nFetches * - | a | b", "why x\nFetch x - | a | b", "why x\nFetch * - | a | b | ("} {
		_, err := parseCauses(wrong)
		require.Error(t, err, wrong)
	}
	for _, c := range causes() {
		require.Greater(t, len(c.why), 10, "a reason")
		require.NotEmpty(t, c.places, c.why)
	}
}

func TestWhatIsNamedTwiceIsComparedOnce(t *testing.T) {
	produced := func(partitions ...[]int32) *kmsg.ProduceResponse {
		r := kmsg.NewPtrProduceResponse()
		for _, ps := range partitions {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic = "a-t"
			for _, p := range ps {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition = p
				topic.Partitions = append(topic.Partitions, part)
			}
			r.Topics = append(r.Topics, topic)
		}
		return r
	}
	together, apart := produced([]int32{0, 1}), produced([]int32{0}, []int32{1, 0})
	require.Empty(t, newCorrespondence().compare(view{prefix: "a", twice: true}, together, apart))
	require.NotEmpty(t, newCorrespondence().compare(view{prefix: "a"}, together, apart), "unless it is asked so")
	apart.Topics[1].Partitions[1].ErrorCode = 3
	got := newCorrespondence().compare(view{prefix: "a", twice: true}, together, apart)
	require.Len(t, got, 1)
	require.Equal(t, []string{".Topics[].Partitions[]", "once", "as often as asked"}, []string{got[0].path, got[0].theirs, got[0].ours})
	apart.Topics[0].Partitions[0].ErrorCode = 5
	require.NotEqual(t, "once", newCorrespondence().compare(view{prefix: "a", twice: true}, together, apart)[0].theirs, "none of them is Kafka's")
}
