package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// anAnswer returns an answer in which everything that the comparison treats in its own way occurs;
// id is what the broker calls things.
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
	require.Equal(t, id{"producer", int64(4000)}, theirs["ProducerID"])
	require.Equal(t, id{"producer", int64(5000)}, ours["ProducerID"])
	require.Nil(t, ours["Sum"], "the sum is right again")
	require.Empty(t, c.diff("", theirs, ours))
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
