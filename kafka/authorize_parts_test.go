package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/topic"
)

func TestMetadataHidesWhatMayNotBeDescribed(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "mine", acl.Describe))
	for _, name := range []string{"mine", "theirs"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
	}
	ask12 := func(topics ...kmsg.MetadataRequestTopic) []kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics, req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = topics, true, true
		return ask[*kmsg.MetadataResponse](t, addr, 12, req).Topics
	}
	named := func(name string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &name} }
	all := ask12()
	require.Len(t, all, 1)
	require.Equal(t, "mine", *all[0].Topic)
	require.Equal(t, int32(1<<acl.Describe), all[0].AuthorizedOperations)

	theirs := ask12(named("theirs"))[0]
	nobodys := ask12(named("nobodys"))[0]
	require.Equal(t, "theirs", *theirs.Topic)
	require.Equal(t, TopicAuthorizationFailed, Code(theirs.ErrorCode))
	require.Zero(t, theirs.TopicID)
	require.Empty(t, theirs.Partitions)
	theirs.Topic = nobodys.Topic
	require.Equal(t, nobodys, theirs, "whether there is such a topic is told")

	id, _ := s.cluster.TopicID("theirs")
	byID := ask12(kmsg.MetadataRequestTopic{TopicID: id})[0]
	require.Nil(t, byID.Topic)
	require.Equal(t, TopicAuthorizationFailed, Code(byID.ErrorCode))

	// Describe on a topic that does not exist does not allow its creation
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Topic, "new", acl.Describe)))
	require.Equal(t, TopicAuthorizationFailed, Code(ask12(named("new"))[0].ErrorCode))
	_, there := s.cluster.TopicID("new")
	require.False(t, there)
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Topic, "new", acl.Create)))
	require.Zero(t, ask12(named("new"))[0].ErrorCode)
}

func TestTopicsThatMayNotBeWrittenAreRefusedBesideOthers(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "mine", acl.Write))
	for _, name := range []string{"mine", "theirs"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
	}
	both := func(acks int16) *kmsg.ProduceRequest {
		req := produceOne(9, "theirs", batch("k", "v"))
		req.Topics = append(req.Topics, produceOne(9, "mine", batch("k", "v")).Topics...)
		req.Acks = acks
		return req
	}
	resp := ask[*kmsg.ProduceResponse](t, addr, 9, both(1))
	codes := map[string]Code{}
	for _, rt := range resp.Topics {
		codes[rt.Topic] = Code(rt.Partitions[0].ErrorCode)
	}
	require.Equal(t, map[string]Code{"mine": 0, "theirs": TopicAuthorizationFailed}, codes)
	ends := func(name string) int64 {
		i, err := s.cluster.Topic(t.Context(), name)
		require.NoError(t, err)
		return i.Partitions[0].LogEndOffset
	}
	require.Equal(t, int64(1), ends("mine"))
	require.Zero(t, ends("theirs"))
	c := dial(t, addr)
	c.send(both(0))
	c.closed() // with acks=0 this is the only way to report an error
	require.Eventually(t, func() bool { return ends("mine") == 2 }, 20*time.Second, time.Millisecond, "nobody says when that is written")
	c = dial(t, addr)
	alone := produceOne(9, "theirs", batch("k", "v"))
	alone.Acks = 0
	c.send(alone)
	c.closed()
	require.Zero(t, ends("theirs"))
	id, _ := s.cluster.TopicID("theirs")
	byID := produceOne(13, "", batch("k", "v"))
	byID.Topics[0].TopicID = id
	require.Equal(t, TopicAuthorizationFailed, Code(ask[*kmsg.ProduceResponse](t, addr, 13, byID).Topics[0].Partitions[0].ErrorCode))
}

// A fetch of a session does not name its partitions. A right that was removed counts there too.
func TestRightsThatAreTakenAwayEndFetchSessions(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "orders", acl.Read))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	c := dial(t, addr)
	first := want(12, "orders", 0)
	first.SessionEpoch = 0
	opened := c.ask(first).(*kmsg.FetchResponse)
	require.NotZero(t, opened.SessionID)
	require.Zero(t, opened.Topics[0].Partitions[0].ErrorCode)
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	next := want(12, "")
	next.SessionID, next.SessionEpoch, next.MinBytes, next.MaxWaitMillis = opened.SessionID, 1, 1, 10_000
	require.NoError(t, c.nc.SetDeadline(time.Now().Add(20*time.Second)))
	got := c.ask(next).(*kmsg.FetchResponse)
	require.Equal(t, TopicAuthorizationFailed, Code(got.Topics[0].Partitions[0].ErrorCode))
	require.Equal(t, int64(-1), got.Topics[0].Partitions[0].HighWatermark)
}

// Sessions keep the names of deleted topics. Only a client that may read such a topic learns that
// it was deleted and created again.
func TestSessionsHideThatTopicsAreGone(t *testing.T) {
	may := rights(acl.Topic, "orders", acl.Read)
	s, addr := authorized(t, may, rights(acl.Group, "g", acl.Read))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	id, _ := s.cluster.TopicID("orders")
	c, sharing := dial(t, addr), newSharer(t, addr, "AAAAAAAAAAAAAAAAAAAAAA", id)
	require.Zero(t, sharing.fetch(nil).ErrorCode)
	begin := want(13, "", 0)
	begin.Topics[0].TopicID = id
	session, epoch := c.fetch(inSession(begin, 0, 0)).SessionID, int32(0)
	require.NotZero(t, session)
	codes := func() (of [2]Code) {
		epoch++
		of[0] = Code(c.fetch(inSession(want(13, ""), session, epoch)).Topics[0].Partitions[0].ErrorCode)
		of[1] = Code(sharing.fetch(nil).Topics[0].Partitions[0].ErrorCode)
		return of
	}
	hidden := [2]Code{TopicAuthorizationFailed, TopicAuthorizationFailed}
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Exactly(may))
	require.NoError(t, err)
	require.Equal(t, hidden, codes())
	require.NoError(t, s.cluster.DeleteTopic(t.Context(), "orders"))
	require.Equal(t, hidden, codes())
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	require.Equal(t, hidden, codes())
	require.NoError(t, s.cluster.CreateACLs(t.Context(), may))
	require.Equal(t, [2]Code{InconsistentTopicID, UnknownTopicID}, codes())
}

// A Fetch with a replica id needs ClusterAction and no other right.
func TestFollowersNeedClusterAction(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "orders", acl.Read))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	req := want(12, "orders", 0)
	req.ReplicaID = 1
	code := func() Code { return Code(ask[*kmsg.FetchResponse](t, addr, 12, req).Topics[0].Partitions[0].ErrorCode) }
	require.Equal(t, TopicAuthorizationFailed, code())
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Cluster, acl.ClusterName, acl.ClusterAction)))
	require.NotEqual(t, TopicAuthorizationFailed, code())
}

// Kafka's brokers require AlterConfigs on the cluster, as for their other settings. Only its
// controllers require ClusterAction, for loggers of their own.
func TestLoggersAreAlteredByWhoMayAlterTheConfigurationOfTheCluster(t *testing.T) {
	s, addr := authorized(t, rights(acl.Cluster, acl.ClusterName, acl.ClusterAction))
	code := func() Code {
		return Code(ask[*kmsg.IncrementalAlterConfigsResponse](t, addr, 1, &kmsg.IncrementalAlterConfigsRequest{
			Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
				ResourceType: resourceBrokerLogger, ResourceName: "1",
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "root", Value: kmsg.StringPtr("DEBUG")}},
			}},
		}).Resources[0].ErrorCode)
	}
	require.Equal(t, ClusterAuthorizationFailed, code())
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Cluster, acl.ClusterName, acl.AlterConfigs)))
	require.Equal(t, InvalidConfig, code(), "there are none")
}

func TestProducerIDsAreForWhoMayWriteSomewhere(t *testing.T) {
	s, addr := authorized(t)
	code := func() Code {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		return Code(ask[*kmsg.InitProducerIDResponse](t, addr, 4, req).ErrorCode)
	}
	require.Equal(t, ClusterAuthorizationFailed, code())
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Topic, "anywhere", acl.Read)))
	require.Equal(t, ClusterAuthorizationFailed, code())
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Topic, "anywhere", acl.Write)))
	require.Zero(t, code())
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Cluster, acl.ClusterName, acl.IdempotentWrite)))
	require.Zero(t, code())
}

func TestOffsetsOfTopicsThatMayNotBeDescribedAreHidden(t *testing.T) {
	s, addr := authorized(t, everything()...)
	createTopic(t, addr, "theirs", 1)
	withSecrets(t, addr)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = "group", -1
	ct, cp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	ct.Topic, ct.Partitions = "theirs", append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	require.Zero(t, ask[*kmsg.OffsetCommitResponse](t, addr, 8, commit).Topics[0].Partitions[0].ErrorCode)
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Group, "group", acl.Describe), rights(acl.Topic, "orders", acl.Describe)))
	for _, version := range []int16{2, 5, 7, 8, 9} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = "group"
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "group"
		req.Groups = append(req.Groups, g)
		all := ask[*kmsg.OffsetFetchResponse](t, addr, version, req)
		names := []string{}
		for _, rt := range all.Topics {
			names = append(names, rt.Topic)
		}
		for _, rg := range all.Groups {
			for _, rt := range rg.Topics {
				names = append(names, rt.Topic)
			}
		}
		require.Equal(t, []string{"orders"}, names, version)
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "theirs", Partitions: []int32{0}}, {Topic: "orders", Partitions: []int32{0}}}
		req.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "theirs", Partitions: []int32{0}}, {Topic: "orders", Partitions: []int32{0}}}
		some := ask[*kmsg.OffsetFetchResponse](t, addr, version, req)
		codes := map[string]Code{}
		for _, rt := range some.Topics {
			codes[rt.Topic] = Code(rt.Partitions[0].ErrorCode)
		}
		for _, rg := range some.Groups {
			for _, rt := range rg.Topics {
				codes[rt.Topic] = Code(rt.Partitions[0].ErrorCode)
			}
		}
		require.Equal(t, map[string]Code{"orders": 0, "theirs": TopicAuthorizationFailed}, codes, version)
	}
}

func TestDeletionTellsNoNamesToWhoMayNotDescribe(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "seen", acl.Describe), rights(acl.Topic, "mine", acl.Delete), rights(acl.Topic, "gone", acl.Describe))
	ids := map[string]topic.ID{}
	for _, name := range []string{"seen", "theirs", "mine"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
		ids[name], _ = s.cluster.TopicID(name)
	}
	answer := func(of kmsg.DeleteTopicsRequestTopic) kmsg.DeleteTopicsResponseTopic {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Topics, req.TimeoutMillis = []kmsg.DeleteTopicsRequestTopic{of}, 10_000
		return ask[*kmsg.DeleteTopicsResponse](t, addr, 6, req).Topics[0]
	}
	named := func(name string) kmsg.DeleteTopicsRequestTopic { return kmsg.DeleteTopicsRequestTopic{Topic: &name} }
	theirs := answer(kmsg.DeleteTopicsRequestTopic{TopicID: ids["theirs"]})
	require.Nil(t, theirs.Topic)
	require.Equal(t, TopicAuthorizationFailed, Code(theirs.ErrorCode))
	seen := answer(kmsg.DeleteTopicsRequestTopic{TopicID: ids["seen"]})
	require.Equal(t, "seen", *seen.Topic)
	require.Equal(t, TopicAuthorizationFailed, Code(seen.ErrorCode))
	for name, code := range map[string]Code{"theirs": TopicAuthorizationFailed, "nobodys": TopicAuthorizationFailed, "seen": TopicAuthorizationFailed, "gone": UnknownTopicOrPartition} {
		got := answer(named(name))
		require.Equal(t, code, Code(got.ErrorCode), name)
		require.Zero(t, got.TopicID, name)
	}
	require.Zero(t, answer(kmsg.DeleteTopicsRequestTopic{TopicID: ids["mine"]}).ErrorCode)
	_, there := s.cluster.TopicID("mine")
	require.False(t, there)
}

func TestPagesOfPartitionsHaveNoneThatMayNotBeDescribed(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "a", acl.Describe), rights(acl.Topic, "c", acl.Read))
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 2}))
	}
	page := func(limit int32, cursor string, names ...string) (got map[string]Code, next string) {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		if cursor != "" {
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: cursor, Partition: 1}
		}
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, addr, 0, req)
		got = map[string]Code{}
		for _, rt := range resp.Topics {
			got[*rt.Topic] = Code(rt.ErrorCode)
		}
		if resp.NextCursor != nil {
			next = resp.NextCursor.Topic
		}
		return got, next
	}
	all, _ := page(10, "")
	require.Equal(t, map[string]Code{"a": 0, "c": 0}, all)
	first, next := page(2, "")
	require.Equal(t, map[string]Code{"a": 0}, first)
	require.Equal(t, "c", next)
	some, _ := page(10, "b", "b", "c")
	require.Equal(t, map[string]Code{"b": TopicAuthorizationFailed, "c": 0}, some)

	refused := kmsg.NewPtrDescribeTopicPartitionsRequest() // of all topics
	refused.ResponsePartitionLimit, refused.Cursor = 10, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "a", Partition: -1}
	require.Empty(t, ask[*kmsg.DescribeTopicPartitionsResponse](t, addr, 0, refused).Topics)
}

func TestAuthorizedOperationsAreThoseThatAreAllowed(t *testing.T) {
	s, addr := authorized(t)
	describe := func() int32 {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations = true
		return ask[*kmsg.DescribeClusterResponse](t, addr, 0, req).ClusterAuthorizedOperations
	}
	require.Zero(t, describe())
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Cluster, acl.ClusterName, acl.AlterConfigs)))
	require.Zero(t, describe(), "who may not describe is told nothing")
	require.NoError(t, s.cluster.CreateACLs(t.Context(), rights(acl.Cluster, acl.ClusterName, acl.Alter)))
	require.Equal(t, int32(1<<acl.Alter|1<<acl.Describe|1<<acl.AlterConfigs|1<<acl.DescribeConfigs), describe())
}

// The answer has no offset of a topic that the client may not describe or read. For a group that
// does not exist it has no topic.
func TestShareOffsetsOfTopicsThatAreHiddenAreNone(t *testing.T) {
	_, addr := authorized(t, rights(acl.Group, "g", acl.Describe), rights(acl.Group, "g", acl.Delete))
	asked := kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: "g", Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{{Topic: "theirs", Partitions: []int32{0}}}}
	got := ask[*kmsg.DescribeShareGroupOffsetsResponse](t, addr, 1, &kmsg.DescribeShareGroupOffsetsRequest{Groups: []kmsg.DescribeShareGroupOffsetsRequestGroup{asked}})
	p := got.Groups[0].Topics[0].Partitions[0]
	require.Equal(t, []any{TopicAuthorizationFailed, int64(-1), int64(-1)}, []any{Code(p.ErrorCode), p.StartOffset, p.Lag})
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, find).ErrorCode)
	forgotten := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, addr, 0, &kmsg.DeleteShareGroupOffsetsRequest{GroupID: "g", Topics: []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: "theirs"}}})
	require.Equal(t, GroupIDNotFound, Code(forgotten.ErrorCode))
	require.Empty(t, forgotten.Topics)
}

// The right to a transactional id is checked only if the request has a batch of a transaction.
func TestWhoProducesWithoutATransactionNeedsNoRightToItsID(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "mine", acl.Write))
	for _, name := range []string{"mine", "theirs"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
	}
	produce := func(version int16, id *string, name string, records []byte) []kmsg.ProduceResponseTopic {
		req := produceOne(version, name, records)
		req.TransactionID = id
		return ask[*kmsg.ProduceResponse](t, addr, version, req).Topics
	}
	code := func(topics []kmsg.ProduceResponseTopic) Code { return Code(topics[0].Partitions[0].ErrorCode) }
	plain, id := batch("k", "v"), kmsg.StringPtr("nobodys")
	of := batch("k", "v")
	of[batchAttributes] |= 0x10
	short := make([]byte, 20)
	for version := int16(3); version <= 12; version++ {
		require.Zero(t, code(produce(version, id, "mine", plain)))
		require.Equal(t, TopicAuthorizationFailed, code(produce(version, id, "theirs", plain)))
		require.Equal(t, TransactionalIDAuthorizationFailed, code(produce(version, id, "mine", of)))
		require.Equal(t, TransactionalIDAuthorizationFailed, code(produce(version, nil, "theirs", of)))
		require.Equal(t, CorruptMessage, code(produce(version, id, "theirs", short)), "what is no batch is told first, of any topic")
		require.Equal(t, CorruptMessage, code(produce(version, id, "nowhere", short)))
	}
	req := produceOne(9, "theirs", nil)
	req.Topics[0].Partitions = nil
	require.Empty(t, ask[*kmsg.ProduceResponse](t, addr, 9, req).Topics, "of no partition nothing is said")
}

func TestWhatIsAddedToATransactionIsAllAllowedOrNothing(t *testing.T) {
	s, addr := authorized(t, rights(acl.TransactionalID, "tx", acl.Write), rights(acl.Topic, "mine", acl.Write))
	for _, name := range []string{"mine", "theirs"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorType = "tx", coordinatorTransaction
	require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, find).ErrorCode)
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("tx"), 60_000
	producer := ask[*kmsg.InitProducerIDResponse](t, addr, 3, init)
	require.Zero(t, producer.ErrorCode)
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = "tx", producer.ProducerID, producer.ProducerEpoch
	for _, name := range []string{"mine", "theirs", "__consumer_offsets"} {
		add.Topics = append(add.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: []int32{0}})
	}
	codes := map[string]Code{}
	for _, rt := range ask[*kmsg.AddPartitionsToTxnResponse](t, addr, 3, add).Topics {
		codes[rt.Topic] = Code(rt.Partitions[0].ErrorCode)
	}
	require.Equal(t, map[string]Code{"mine": OperationNotAttempted, "theirs": TopicAuthorizationFailed, "__consumer_offsets": TopicAuthorizationFailed}, codes)
	d, err := s.cluster.TransactionCoordinator().Describe(t.Context(), "tx")
	require.NoError(t, err)
	require.Empty(t, d.Partitions)
}

// A member subscribes by an expression that matches a topic it may not describe. It is assigned
// that topic only after it may describe it. A classic member in the group does not change this.
func TestRegularExpressionMatchesOnlyWhatMayBeDescribed(t *testing.T) {
	s, addr := authorized(t, rights(acl.Topic, "mine", acl.Describe), rights(acl.Group, "g", acl.Read))
	for _, name := range []string{"mine", "theirs"} {
		require.NoError(t, s.cluster.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
	}
	expr, epoch := "(mi|the).*", int32(0)
	c := dial(t, addr)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "g"
	require.Zero(t, c.ask(find).(*kmsg.FindCoordinatorResponse).ErrorCode)
	matched := func() []string {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, "g", "m", epoch, 60_000
		req.SubscribedTopicRegex, req.Topics = &expr, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		resp := c.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
		require.Zero(t, resp.ErrorCode, "%v", resp.ErrorMessage)
		epoch = resp.MemberEpoch
		info, err := s.cluster.Group(t.Context(), "g")
		require.NoError(t, err)
		i := slices.IndexFunc(info.Members, func(m group.MemberInfo) bool { return m.ID == "m" })
		return info.Members[i].Topics
	}
	require.Equal(t, []string{"mine"}, matched())
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "them", topic.Config{Partitions: 1}))
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, "g", "consumer", 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", assignor.Subscription{Topics: []string{"mine"}}.AppendTo(nil)
	join.Protocols = append(join.Protocols, p)
	require.Zero(t, c.ask(join).(*kmsg.JoinGroupResponse).ErrorCode)
	require.Equal(t, []string{"mine"}, matched())

	theirs := rights(acl.Topic, "theirs", acl.Describe)
	require.NoError(t, s.cluster.CreateACLs(t.Context(), theirs))
	require.Equal(t, []string{"mine", "theirs"}, matched())
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Exactly(theirs))
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, matched())
}

// A group description is hidden from a client that may describe the group, but not all topics of
// its members.
func TestGroupsOfTopicsThatMayNotBeDescribedAreHidden(t *testing.T) {
	s, addr := authorized(t, everything()...)
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "theirs", topic.Config{Partitions: 1}))
	for _, found := range ask[*kmsg.FindCoordinatorResponse](t, addr, 4, &kmsg.FindCoordinatorRequest{CoordinatorKeys: []string{"members", "sharers"}}).Coordinators {
		require.Zero(t, found.ErrorCode)
	}
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = "members", "m", 10_000
	beat.SubscribedTopicNames, beat.Topics = []string{"theirs"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](t, addr, 1, beat).ErrorCode)
	share := kmsg.NewPtrShareGroupHeartbeatRequest()
	share.GroupID, share.MemberID, share.SubscribedTopicNames = "sharers", "m", []string{"theirs"}
	require.Zero(t, ask[*kmsg.ShareGroupHeartbeatResponse](t, addr, 1, share).ErrorCode)
	members := func() kmsg.ConsumerGroupDescribeResponseGroup {
		return ask[*kmsg.ConsumerGroupDescribeResponse](t, addr, 1, &kmsg.ConsumerGroupDescribeRequest{Groups: []string{"members"}, IncludeAuthorizedOperations: true}).Groups[0]
	}
	sharers := func() kmsg.ShareGroupDescribeResponseGroup {
		return ask[*kmsg.ShareGroupDescribeResponse](t, addr, 1, &kmsg.ShareGroupDescribeRequest{GroupIDs: []string{"sharers"}, IncludeAuthorizedOperations: true}).Groups[0]
	}
	require.Len(t, members().Members, 1)
	require.Len(t, sharers().Members, 1)
	no := rights(acl.Topic, "theirs", acl.Describe)
	no.Permission = acl.Deny
	require.NoError(t, s.cluster.CreateACLs(t.Context(), no))

	hidden := kmsg.NewConsumerGroupDescribeResponseGroup()
	hidden.Group, hidden.ErrorCode, hidden.ErrorMessage = "members", int16(TopicAuthorizationFailed), kmsg.StringPtr(hiddenTopics)
	got := members()
	require.Empty(t, got.Members)
	got.Members = nil
	require.Equal(t, hidden, got)
	shared := kmsg.NewShareGroupDescribeResponseGroup()
	shared.GroupID, shared.ErrorCode, shared.ErrorMessage = "sharers", int16(TopicAuthorizationFailed), kmsg.StringPtr(hiddenTopics)
	also := sharers()
	require.Empty(t, also.Members)
	also.Members = nil
	require.Equal(t, shared, also)
}
