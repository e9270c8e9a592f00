package kafka

import (
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/topic"
)

func TestEveryAPIHasAGuard(t *testing.T) {
	for _, a := range apis {
		require.NotNil(t, guards[a.key], "%v: who may ask for it? See guards", a.key)
	}
}

// rights makes an entry that allows an operation to anonymous clients. The name "*" means all
// resources.
func rights(kind acl.ResourceType, name string, o acl.Operation) acl.Entry {
	return acl.Entry{ResourceType: kind, ResourceName: name, PatternType: acl.Literal, Principal: "User:ANONYMOUS", Host: "*", Operation: o, Permission: acl.Allow}
}

// authorized serves a cluster with authorization and with the given entries.
func authorized(t *testing.T, entries ...acl.Entry) (*Server, string) {
	t.Helper()
	s, addr := serve(t, Config{Authorization: Authorization{Enabled: true, SuperUsers: []string{"User:root"}}, Telemetry: Telemetry{Receive: func(TelemetryPush) {}}})
	require.NoError(t, s.cluster.CreateACLs(t.Context(), entries...))
	return s, addr
}

// everything returns entries that allow all operations on all resources to anonymous clients.
func everything() (entries []acl.Entry) {
	for kind := acl.Topic; kind <= acl.User; kind++ {
		name := acl.Wildcard
		if kind == acl.Cluster {
			name = acl.ClusterName
		}
		entries = append(entries, rights(kind, name, acl.All))
	}
	return entries
}

// Values that must not appear in an answer to a client without rights.
const (
	hiddenOffset = 424_242
	hiddenText   = "hidden"
)

// withSecrets makes topics, offsets and transactions. namedRequest uses some of their names.
func withSecrets(t *testing.T, addr string) {
	t.Helper()
	createTopic(t, addr, "orders", 1)
	createTopic(t, addr, hiddenText+"-topic", 1)
	for _, name := range []string{"orders", hiddenText + "-topic"} {
		ask[*kmsg.ProduceResponse](t, addr, 9, produceOne(9, name, batch("k", hiddenText)))
	}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = resourceTopic, "orders"
	rr.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: kmsg.StringPtr("424242")}}
	alter.Resources = append(alter.Resources, rr)
	require.Zero(t, ask[*kmsg.IncrementalAlterConfigsResponse](t, addr, 1, alter).Resources[0].ErrorCode)
	for _, id := range []string{"group", hiddenText + "-group"} {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = id
		require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, find).ErrorCode)
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation = id, -1
		ct := kmsg.NewOffsetCommitRequestTopic()
		ct.Topic = "orders"
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset, p.Metadata = hiddenOffset, kmsg.StringPtr(hiddenText)
		ct.Partitions = append(ct.Partitions, p)
		commit.Topics = append(commit.Topics, ct)
		require.Zero(t, ask[*kmsg.OffsetCommitResponse](t, addr, 8, commit).Topics[0].Partitions[0].ErrorCode)
	}
	for _, id := range []string{"orders", hiddenText + "-id"} {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorType = id, coordinatorTransaction
		require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, find).ErrorCode)
		init := kmsg.NewPtrInitProducerIDRequest()
		init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr(id), 60_000
		require.Zero(t, ask[*kmsg.InitProducerIDResponse](t, addr, 4, init).ErrorCode)
	}
}

// fields calls look with each field of a message and its name.
func fields(v reflect.Value, look func(name string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fields(v.Elem(), look)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fields(v.Index(i), look)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" {
				look(f.Name, v.Field(i))
				fields(v.Field(i), look)
			}
		}
	}
}

// namedRequest is filledRequest with the names that withSecrets has made.
func namedRequest(t *testing.T, s *Server, key Key, version int16) kmsg.Request {
	req := filledRequest(key, version)
	id, known := s.cluster.TopicID("orders")
	require.True(t, known)
	fields(reflect.ValueOf(req), func(name string, v reflect.Value) {
		switch name {
		case "TopicID":
			v.Set(reflect.ValueOf([16]byte(id)))
		case "ResourceType":
			v.SetInt(resourceTopic)
		}
	})
	switch r := req.(type) {
	case *kmsg.DeleteTopicsRequest:
		if version >= 6 {
			r.Topics[0].Topic = nil
		}
	case *kmsg.MetadataRequest:
		if version >= 12 {
			r.Topics[0].Topic = nil
		} else {
			r.Topics[0].TopicID = [16]byte{}
		}
	case *kmsg.DescribeTopicPartitionsRequest:
		r.Cursor = nil
	case *kmsg.CreateTopicsRequest:
		r.Topics[0].Topic = "new"
	case *kmsg.FindCoordinatorRequest:
		if r.CoordinatorType = coordinatorGroup; version == 0 {
			r.CoordinatorType = 0
		}
	case *kmsg.ListOffsetsRequest:
		r.ReplicaID = -1
	case *kmsg.FetchRequest:
		r.ReplicaState.ID = -1
	}
	return req
}

// authorizationCodes returns the authorization errors of an answer.
func authorizationCodes(resp kmsg.Response) (codes []Code) {
	fields(reflect.ValueOf(resp), func(name string, v reflect.Value) {
		if name == "ErrorCode" && authorizationTexts[Code(v.Int())] != "" {
			codes = append(codes, Code(v.Int()))
		}
	})
	return codes
}

// tellsNothing has the APIs that return no authorization error to a client without rights, and the
// reason.
var tellsNothing = map[Key]string{
	ApiVersions:               "it is for everybody",
	GetTelemetrySubscriptions: "likewise",
	PushTelemetry:             "likewise",
	ListGroups:                "groups are left out",
	ListTransactions:          "transactions are left out",
	DescribeCluster:           "brokers are for everybody; no operation is allowed",
	CreateDelegationToken:     "nobody is authenticated here, and gets none",
	RenewDelegationToken:      "likewise",
	ExpireDelegationToken:     "likewise",
	DescribeDelegationToken:   "likewise",
}

// stateOf describes the state that requests could have changed.
func stateOf(t *testing.T, s *Server) string {
	t.Helper()
	topics, err := s.cluster.Topics(t.Context())
	require.NoError(t, err)
	groups, err := s.cluster.Groups(t.Context())
	require.NoError(t, err)
	transactions, err := s.cluster.TransactionCoordinator().List(t.Context())
	require.NoError(t, err)
	var b strings.Builder
	for _, i := range topics {
		if topic.IsInternal(i.Name) {
			continue
		}
		fmt.Fprintln(&b, i.Name, i.Settings.Explicit())
		for _, p := range i.Partitions {
			fmt.Fprintln(&b, p.LogStartOffset, p.LogEndOffset)
		}
	}
	for _, g := range groups {
		fmt.Fprintln(&b, g.ID, g.State, len(g.Members))
	}
	for _, tx := range transactions {
		fmt.Fprintln(&b, tx.ID, tx.State, tx.Producer)
	}
	fmt.Fprintln(&b, s.cluster.ACLs().Matching(acl.Everything()))
	return b.String()
}

// A client without rights sends every API in every version, about a topic, a group and a
// transactional id that exist. The request is refused, changes nothing, and its answer discloses
// nothing. The same request of a client with all rights is not refused.
func TestEveryAPIIsRefusedWithoutRights(t *testing.T) {
	s, addr := authorized(t, everything()...)
	withSecrets(t, addr)
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	before := stateOf(t, s)
	for _, a := range apis {
		if a.key == SaslHandshake || a.key == SaslAuthenticate {
			continue // they authenticate the client
		}
		for version := a.min; version <= a.max; version++ {
			what := fmt.Sprintf("%v version %d", a.key, version)
			req := namedRequest(t, s, a.key, version)
			c := dial(t, addr)
			require.NoError(t, c.nc.SetDeadline(time.Now().Add(20*time.Second)))
			resp := c.ask(req)
			c.nc.Close()
			b, err := json.Marshal(resp)
			require.NoError(t, err)
			require.NotContains(t, string(b), hiddenText, what)
			require.NotContains(t, string(b), fmt.Sprint(hiddenOffset), what)
			fields(reflect.ValueOf(resp), func(name string, v reflect.Value) {
				if slices.Contains([]string{"HighWatermark", "LastStableOffset", "LogStartOffset", "Offset", "EndOffset", "LowWatermark", "BaseOffset", "CommittedOffset"}, name) && v.Kind() == reflect.Int64 {
					require.Equal(t, int64(-1), v.Int(), "%s: %s", what, name)
				}
			})
			silent := tellsNothing[a.key] != "" || a.key == DescribeLogDirs && version < 3
			require.Equal(t, silent, len(authorizationCodes(resp)) == 0, "%s: %s", what, b)
			if !silent {
				atTop := 0 // where nothing is wrong with the request as a whole
				if top := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode"); top.IsValid() && top.IsZero() {
					atTop = 1
				}
				require.Equal(t, atTop, strings.Count(string(b), `"ErrorCode":0`), "%s: %s", what, b)
			}
		}
	}
	require.Equal(t, before, stateOf(t, s), "something was changed")
	require.NoError(t, s.cluster.CreateACLs(t.Context(), everything()...))
	for _, a := range apis {
		if a.key == DeleteTopics || a.key == JoinGroup || a.key == SyncGroup || a.key == DeleteACLs || a.key == SaslHandshake || a.key == SaslAuthenticate {
			// the other requests need the topic, joins may wait, and DeleteACLs would remove
			// the rights
			continue
		}
		for version := a.min; version <= a.max; version++ {
			c := dial(t, addr)
			require.NoError(t, c.nc.SetDeadline(time.Now().Add(20*time.Second)))
			require.Empty(t, authorizationCodes(c.ask(namedRequest(t, s, a.key, version))), "%v version %d", a.key, version)
			c.nc.Close()
		}
	}
}

func TestWithoutAnAuthorizerACLsAreDisabledAndThereAreNoQuotas(t *testing.T) {
	s, addr := serve(t, Config{})
	for version := int16(1); version <= 3; version++ {
		described := ask[*kmsg.DescribeACLsResponse](t, addr, version, namedACLs(kmsg.NewPtrDescribeACLsRequest()))
		require.Equal(t, SecurityDisabled, Code(described.ErrorCode))
		require.Equal(t, "No Authorizer is configured on the broker", *described.ErrorMessage)
		create := kmsg.NewPtrCreateACLsRequest()
		create.Creations = []kmsg.CreateACLsRequestCreation{creation("orders"), creation("")}
		for _, r := range ask[*kmsg.CreateACLsResponse](t, addr, version, create).Results {
			require.Equal(t, SecurityDisabled, Code(r.ErrorCode))
			require.Equal(t, "No Authorizer is configured.", *r.ErrorMessage)
		}
		remove := kmsg.NewPtrDeleteACLsRequest()
		remove.Filters = make([]kmsg.DeleteACLsRequestFilter, 2)
		for _, r := range ask[*kmsg.DeleteACLsResponse](t, addr, version, remove).Results {
			require.Equal(t, SecurityDisabled, Code(r.ErrorCode))
			require.Equal(t, "No Authorizer is configured.", *r.ErrorMessage)
		}
	}
	require.Zero(t, s.cluster.ACLs().Len())
	quotas := ask[*kmsg.DescribeClientQuotasResponse](t, addr, 1, kmsg.NewPtrDescribeClientQuotasRequest())
	require.Zero(t, quotas.ErrorCode)
	require.Equal(t, []kmsg.DescribeClientQuotasResponseEntry{}, quotas.Entries)
}

func namedACLs(r *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsRequest {
	r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 1, 1, 1, 1
	return r
}

func creation(name string) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = 2, name, 3
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:alice", "*", 3, 3
	return c
}

func TestACLsAreMadeFoundAndRemovedOverTheWire(t *testing.T) {
	s, addr := authorized(t, rights(acl.Cluster, acl.ClusterName, acl.All))
	create := kmsg.NewPtrCreateACLsRequest()
	create.Creations = []kmsg.CreateACLsRequestCreation{creation("orders"), creation(""), creation("orders-2")}
	made := ask[*kmsg.CreateACLsResponse](t, addr, 3, create).Results
	require.Zero(t, made[0].ErrorCode)
	require.Equal(t, InvalidRequest, Code(made[1].ErrorCode))
	require.Equal(t, "Invalid empty resource name", *made[1].ErrorMessage)
	require.Zero(t, made[2].ErrorCode)
	require.Equal(t, 3, s.cluster.ACLs().Len())

	find := namedACLs(kmsg.NewPtrDescribeACLsRequest())
	find.ResourceName, find.ResourcePatternType = kmsg.StringPtr("orders"), 2
	found := ask[*kmsg.DescribeACLsResponse](t, addr, 3, find)
	require.Len(t, found.Resources, 1)
	require.Equal(t, "orders", found.Resources[0].ResourceName)
	require.Equal(t, "User:alice", found.Resources[0].ACLs[0].Principal)
	find.ResourceType = 99
	require.Equal(t, InvalidRequest, Code(ask[*kmsg.DescribeACLsResponse](t, addr, 3, find).ErrorCode))

	remove := kmsg.NewPtrDeleteACLsRequest()
	bad, good := kmsg.NewDeleteACLsRequestFilter(), kmsg.NewDeleteACLsRequestFilter()
	good.ResourceType, good.ResourcePatternType, good.Operation, good.PermissionType = 2, 1, 1, 1
	remove.Filters = []kmsg.DeleteACLsRequestFilter{bad, good}
	removed := ask[*kmsg.DeleteACLsResponse](t, addr, 3, remove).Results
	require.Equal(t, InvalidRequest, Code(removed[0].ErrorCode))
	require.Len(t, removed[1].MatchingACLs, 2)
	require.Equal(t, 1, s.cluster.ACLs().Len())
}

func TestSuperUsersAndTheProcessHelpWhoIsLockedOut(t *testing.T) {
	deny := acl.Entry{ResourceType: acl.Cluster, ResourceName: acl.ClusterName, PatternType: acl.Literal, Principal: acl.AnyPrincipal, Host: "*", Operation: acl.All, Permission: acl.Deny}
	s, addr := authorized(t, deny)
	c := dial(t, addr)
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	require.Equal(t, ClusterAuthorizationFailed, Code(c.ask(quorum).(*kmsg.DescribeQuorumResponse).ErrorCode))
	s.mu.Lock()
	for conn := range s.conns {
		conn.setPrincipal(Principal{Type: "User", Name: "root"})
	}
	s.mu.Unlock()
	require.NotEqual(t, ClusterAuthorizationFailed, Code(c.ask(quorum).(*kmsg.DescribeQuorumResponse).ErrorCode))
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
}

func TestSuperUsersThatAreNoPrincipalsAreRefused(t *testing.T) {
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer cluster.Close()
	s := NewServer(cluster, Config{Authorization: Authorization{Enabled: true, SuperUsers: []string{"root"}}})
	defer s.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(cluster.Controller(), ln), acl.ErrInvalid)
}
