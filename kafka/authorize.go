package kafka

import (
	"log/slog"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// Authorization controls the permissions of clients. It does not apply to calls of the Cluster
// inside the process. The entries belong to the cluster (strata.Cluster.CreateACLs), and apply on
// every broker at once.
//
// If the entries deny access to all clients, a super user can still change them, and so can the
// process with the Cluster.
type Authorization struct {
	// Enabled makes the server authorize every request by the rules of Kafka's StandardAuthorizer.
	// Otherwise all clients have all permissions, and requests about entries return
	// SECURITY_DISABLED. Kafka: authorizer.class.name.
	Enabled bool

	// SuperUsers are principals with all permissions, whatever the entries, as "User:admin". Serve
	// returns an *acl.InvalidError for a value that is not a principal. Kafka: super.users.
	SuperUsers []string

	// AllowEveryoneIfNoACL allows all operations on resources that no entry matches. Kafka:
	// allow.everyone.if.no.acl.found.
	AllowEveryoneIfNoACL bool
}

// Validate returns an *acl.InvalidError if a super user is not a valid principal.
func (a Authorization) Validate() error { return a.policy().Validate() }

func (a Authorization) policy() acl.Policy {
	return acl.Policy{SuperUsers: a.SuperUsers, AllowEveryoneIfNoACL: a.AllowEveryoneIfNoACL}
}

// authorizer returns the present authorizer, nil without authorization. Requests that begin after a
// change of the entries use the change.
func (s *Server) authorizer() *acl.Authorizer {
	if !s.cfg.Authorization.Enabled {
		return nil
	}
	a, set := s.authorized.Load(), s.cluster.ACLs()
	if a == nil || a.Set() != set {
		a = s.cfg.Authorization.policy().With(set)
		s.authorized.Store(a)
	}
	return a
}

// A guard authorizes one request before it is served, as Kafka's KafkaApis and ControllerApis do.
// It does not block.
//
// To deny the whole request, it returns the response, or sets c.closing if the request has none.
// To deny parts, it removes them from the request and sets c.after, which adds their errors to the
// response. A request with all permissions stays unchanged.
type guard func(c *call, req kmsg.Request) kmsg.Response

// guarded adapts the guard of one type of request to all requests.
func guarded[Q kmsg.Request](fn func(*call, Q) kmsg.Response) guard {
	return func(c *call, r kmsg.Request) kmsg.Response { return fn(c, r.(Q)) }
}

// free is the guard of requests that every client may send, or that their handlers authorize.
func free(*call, kmsg.Request) kmsg.Response { return nil }

// cluster returns the guard of requests that need one operation on the cluster.
func cluster(o acl.Operation) guard {
	return func(c *call, req kmsg.Request) kmsg.Response {
		if c.mayCluster(o) {
			return nil
		}
		return refusedWhole(req, ClusterAuthorizationFailed)
	}
}

// guards has the guard of each served API. A test checks that none is missing.
var guards = map[Key]guard{
	Produce:                      guarded(guardProduce),
	Fetch:                        free, // planFetch authorizes, also partitions of the session
	ListOffsets:                  guarded(guardListOffsets),
	Metadata:                     free, // metadata authorizes, and needs Create to create topics
	OffsetCommit:                 guarded(guardOffsetCommit),
	OffsetFetch:                  guarded(guardOffsetFetch),
	FindCoordinator:              guarded(guardFindCoordinator),
	JoinGroup:                    groupOf(func(r *kmsg.JoinGroupRequest) string { return r.Group }),
	Heartbeat:                    groupOf(func(r *kmsg.HeartbeatRequest) string { return r.Group }),
	LeaveGroup:                   groupOf(func(r *kmsg.LeaveGroupRequest) string { return r.Group }),
	SyncGroup:                    groupOf(func(r *kmsg.SyncGroupRequest) string { return r.Group }),
	DescribeGroups:               guarded(guardDescribeGroups),
	ListGroups:                   guarded(guardListGroups),
	SaslHandshake:                free,
	ApiVersions:                  free,
	CreateTopics:                 guarded(guardCreateTopics),
	DeleteTopics:                 guarded(guardDeleteTopics),
	DeleteRecords:                guarded(guardDeleteRecords),
	InitProducerID:               guarded(guardInitProducerID),
	OffsetForLeaderEpoch:         guarded(guardOffsetForLeaderEpoch),
	AddPartitionsToTxn:           guarded(guardAddPartitionsToTxn),
	AddOffsetsToTxn:              guarded(guardAddOffsetsToTxn),
	EndTxn:                       guarded(guardEndTxn),
	WriteTxnMarkers:              guarded(guardWriteTxnMarkers),
	TxnOffsetCommit:              guarded(guardTxnOffsetCommit),
	DescribeACLs:                 cluster(acl.Describe),
	CreateACLs:                   cluster(acl.Alter),
	DeleteACLs:                   cluster(acl.Alter),
	DescribeConfigs:              guarded(guardDescribeConfigs),
	AlterConfigs:                 guarded(guardAlterConfigs),
	DescribeLogDirs:              guarded(guardDescribeLogDirs),
	SaslAuthenticate:             free,
	CreatePartitions:             guarded(guardCreatePartitions),
	CreateDelegationToken:        free, // createDelegationToken authorizes tokens for other users
	RenewDelegationToken:         free, // changeToken authorizes the owner and the renewers
	ExpireDelegationToken:        free, // likewise
	DescribeDelegationToken:      free, // describeDelegationToken leaves out hidden tokens
	DeleteGroups:                 guarded(guardDeleteGroups),
	ElectLeaders:                 cluster(acl.Alter),
	IncrementalAlterConfigs:      guarded(guardIncrementalAlterConfigs),
	AlterPartitionReassignments:  cluster(acl.Alter),
	ListPartitionReassignments:   cluster(acl.Describe),
	OffsetDelete:                 guarded(guardOffsetDelete),
	DescribeClientQuotas:         cluster(acl.DescribeConfigs),
	AlterClientQuotas:            cluster(acl.AlterConfigs),
	DescribeUserScramCredentials: cluster(acl.Describe),
	AlterUserScramCredentials:    cluster(acl.Alter),
	DescribeQuorum:               cluster(acl.Describe),
	UpdateFeatures:               cluster(acl.Alter),
	DescribeCluster:              free, // describeCluster authorizes the list of operations only
	DescribeProducers:            guarded(guardDescribeProducers),
	DescribeTransactions:         guarded(guardDescribeTransactions),
	ListTransactions:             guarded(guardListTransactions),
	ConsumerGroupHeartbeat:       guarded(guardConsumerGroupHeartbeat),
	ConsumerGroupDescribe:        guarded(guardConsumerGroupDescribe),
	GetTelemetrySubscriptions:    free,
	PushTelemetry:                free,
	ListConfigResources:          cluster(acl.DescribeConfigs),
	DescribeTopicPartitions:      free, // describeTopicPartitions authorizes before it pages
	ShareGroupHeartbeat:          guarded(guardShareGroupHeartbeat),
	ShareGroupDescribe:           guarded(guardShareGroupDescribe),
	ShareFetch:                   free, // shareFetch authorizes, also partitions of the session
	ShareAcknowledge:             free, // shareAcknowledge authorizes
	InitializeShareGroupState:    guardShareGroupState,
	ReadShareGroupState:          guardShareGroupState,
	WriteShareGroupState:         guardShareGroupState,
	DeleteShareGroupState:        guardShareGroupState,
	ReadShareGroupStateSummary:   guardShareGroupState,
	StreamsGroupHeartbeat:        guarded(guardStreamsGroupHeartbeat),
	StreamsGroupDescribe:         guarded(guardStreamsGroupDescribe),
	DescribeShareGroupOffsets:    guarded(guardDescribeShareGroupOffsets),
	AlterShareGroupOffsets:       guarded(guardAlterShareGroupOffsets),
	DeleteShareGroupOffsets:      guarded(guardDeleteShareGroupOffsets),
}

// authorize reports whether the request is to be served. If not, it has sent the response or
// closed the connection.
func (e *execution) authorize() bool {
	if e.may = e.s.authorizer(); e.may == nil {
		return true
	}
	e.who = acl.Client{Principal: e.principal.String(), Host: strings.TrimPrefix(e.clientHost, "/")}
	served := false
	return e.guard(func() {
		resp := guards[e.api.key](&e.call, e.req)
		if served = resp == nil && !e.closing; !served {
			e.finish(resp, transport.Caller)
		}
	}) && served
}

// allows reports whether the client has a permission on a resource.
func (c *call) allows(o acl.Operation, t acl.ResourceType, name string) bool {
	if c.may == nil || c.may.Allows(c.who, o, acl.Resource{Type: t, Name: name}) {
		return true
	}
	c.s.log.Debug("denied", slog.String("principal", c.who.Principal), slog.String("host", c.who.Host), slog.Any("operation", o), slog.Any("type", t), slog.String("resource", name), slog.Any("request", c.conn.id))
	return false
}

func (c *call) mayCluster(o acl.Operation) bool { return c.allows(o, acl.Cluster, acl.ClusterName) }

// operations returns the client's permitted operations on a resource as a bit field (KIP-430), for
// a response that lists them.
func (c *call) operations(t acl.ResourceType, name string) int32 {
	if c.may == nil {
		return int32(acl.Supported(t))
	}
	return int32(c.may.Operations(c.who, acl.Resource{Type: t, Name: name}))
}

// onCluster returns the client's operations on the cluster, none without Describe.
func (c *call) onCluster() int32 {
	if !c.mayCluster(acl.Describe) {
		return 0
	}
	return c.operations(acl.Cluster, acl.ClusterName)
}

// topicByID returns the name of a topic. From version since on the request has its id instead;
// false if no topic has that id.
func (c *call) topicByID(name string, id [16]byte, since int16) (string, bool) {
	if c.version < since {
		return name, true
	}
	return c.s.cluster.TopicName(id)
}

// split returns the elements of a list for which keep returns true, and the others. The list is
// not changed; kept is the list itself if it keeps all.
func split[T any](list []T, keep func(*T) bool) (kept, others []T) {
	for i := range list {
		if !keep(&list[i]) {
			if kept == nil {
				kept = append(make([]T, 0, len(list)), list[:i]...)
			}
			others = append(others, list[i])
		} else if kept != nil {
			kept = append(kept, list[i])
		}
	}
	if others == nil {
		return list, nil
	}
	return kept, others
}

// then makes c.after call fn with the response of the handler, before it is sent. It returns nil,
// the result of a guard that lets a request be served.
func then[R kmsg.Response](c *call, fn func(resp R)) kmsg.Response {
	c.after = func(resp kmsg.Response) { fn(resp.(R)) }
	return nil
}

// authorizationTexts are Kafka's messages for denied requests.
var authorizationTexts = map[Code]string{
	TopicAuthorizationFailed:           "Topic authorization failed.",
	GroupAuthorizationFailed:           "Group authorization failed.",
	ClusterAuthorizationFailed:         "Cluster authorization failed.",
	TransactionalIDAuthorizationFailed: "Transactional Id authorization failed.",
}

func authorizationText(code Code) *string {
	text := authorizationTexts[code]
	return &text
}

// refusedWhole returns a response with an error code wherever Kafka's getErrorResponse of that
// request has it: at the top level, in the parts, or both.
func refusedWhole(req kmsg.Request, code Code) kmsg.Response {
	resp := req.ResponseKind()
	if d, ok := resp.(interface{ Default() }); ok {
		d.Default()
	}
	resp.SetVersion(req.GetVersion())
	switch r := resp.(type) {
	case *kmsg.CreateACLsResponse:
		for range req.(*kmsg.CreateACLsRequest).Creations {
			r.Results = append(r.Results, kmsg.CreateACLsResponseResult{ErrorCode: int16(code), ErrorMessage: authorizationText(code)})
		}
	case *kmsg.DeleteACLsResponse:
		for range req.(*kmsg.DeleteACLsRequest).Filters {
			r.Results = append(r.Results, kmsg.DeleteACLsResponseResult{ErrorCode: int16(code), ErrorMessage: authorizationText(code)})
		}
	case *kmsg.AlterClientQuotasResponse:
		r.Entries = refusedQuotas(req.(*kmsg.AlterClientQuotasRequest), code, authorizationText(code))
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		refusedUsers(req.(*kmsg.AlterUserSCRAMCredentialsRequest), r, code)
	case *kmsg.ElectLeadersResponse:
		refusedElections(req.(*kmsg.ElectLeadersRequest), r, code)
	case *kmsg.AlterPartitionAssignmentsResponse:
		refusedAssignments(req.(*kmsg.AlterPartitionAssignmentsRequest), r, code)
	case *kmsg.JoinGroupResponse:
		r.Generation = -1
		if r.Version < 7 {
			r.Protocol = kmsg.StringPtr("")
		}
		r.ErrorCode = int16(code)
	default:
		v := reflect.ValueOf(resp).Elem()
		v.FieldByName("ErrorCode").SetInt(int64(code))
		if m := v.FieldByName("ErrorMessage"); m.IsValid() {
			m.Set(reflect.ValueOf(authorizationText(code)))
		}
	}
	return resp
}

func refusedElections(req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse, code Code) {
	resp.ErrorCode = int16(code)
	for _, t := range req.Topics {
		rt := kmsg.NewElectLeadersResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.ElectLeadersResponseTopicPartition{Partition: p, ErrorCode: int16(code), ErrorMessage: authorizationText(code)})
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

func refusedAssignments(req *kmsg.AlterPartitionAssignmentsRequest, resp *kmsg.AlterPartitionAssignmentsResponse, code Code) {
	resp.ErrorCode, resp.ErrorMessage = int16(code), authorizationText(code)
	for _, t := range req.Topics {
		rt := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.AlterPartitionAssignmentsResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(code), ErrorMessage: authorizationText(code)})
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

// refusedUsers adds one result for each user of the request.
func refusedUsers(req *kmsg.AlterUserSCRAMCredentialsRequest, resp *kmsg.AlterUserSCRAMCredentialsResponse, code Code) {
	answered := map[string]bool{}
	add := func(name string) {
		if !answered[name] {
			answered[name] = true
			resp.Results = append(resp.Results, kmsg.AlterUserSCRAMCredentialsResponseResult{User: name, ErrorCode: int16(code), ErrorMessage: authorizationText(code)})
		}
	}
	for _, d := range req.Deletions {
		add(d.Name)
	}
	for _, u := range req.Upsertions {
		add(u.Name)
	}
}
