// Package errorreply makes a broker's response to a request that fails as a whole, for any API. The
// response has an element for each target in the request, and Kafka's defaults in the other fields.
// Kafka: the getErrorResponse methods of its requests.
package errorreply

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lists maps the fields of requests that hold targets to the fields of the response with an element
// for each. Requests are walked by the names of their fields, which kmsg uses consistently: a table
// for every API would contain the same. A test of kafkatest compares it with the served APIs.
var Lists = []struct{ Request, Response string }{
	{"Topics", "Topics"},
	{"TopicNames", "Topics"}, // DeleteTopics below version 6
	{"Partitions", "Partitions"},
	{"Groups", "Groups"},
	{"GroupIDs", "Groups"}, // ShareGroupDescribe
	{"CoordinatorKeys", "Coordinators"},
	{"Resources", "Resources"},
	{"Transactions", "Transactions"}, // AddPartitionsToTxn from version 4 on
	{"Markers", "Markers"},
	{"TransactionalIDs", "TransactionStates"},
}

// Identity are the fields of a response that identify its target: they are copied from the request.
var Identity = []string{"TransactionalID", "ProducerID", "Topic", "TopicID", "Partition", "Group", "GroupID", "Key", "CoordinatorKey", "ResourceType", "ResourceName",
	"MemberID", "ClientInstanceID", "EndpointType"}

// A Level is the place of an error code in a response.
type Level int

// Levels.
const (
	Everywhere Level = iota // at the top and in every element below it
	Innermost               // only in the elements for single partitions, topics or groups
	Outermost               // only at the top; there are no elements
)

// An Error is the error of a request.
type Error struct {
	Code    int16
	Message string // for APIs with an error message
	Level   Level
}

func (e Error) message() *string { return &e.Message }

const unsupportedVersion = 35

// New returns the response to req that fails with e, well-formed in req's version.
func New(req kmsg.Request, e Error) kmsg.Response {
	resp := Empty(req)
	mirror{e}.answer(reflect.ValueOf(req).Elem(), reflect.ValueOf(resp).Elem())
	e.finish(req, resp)
	return resp
}

// Empty returns an empty response to req in its version.
func Empty(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	if d, ok := resp.(interface{ Default() }); ok {
		d.Default()
	}
	resp.SetVersion(req.GetVersion())
	return resp
}

// LevelOf returns the place of Kafka's error if all of req fails.
func LevelOf(req kmsg.Request) Level {
	switch req.(type) {
	case *kmsg.FetchRequest:
		return Innermost
	case *kmsg.OffsetFetchRequest:
		if req.GetVersion() < 2 {
			return Innermost
		}
		return Outermost // mirror.answer adds the elements of groups nevertheless
	case *kmsg.AddPartitionsToTxnRequest:
		if req.GetVersion() < 4 {
			return Innermost
		}
		return Outermost
	case *kmsg.ShareFetchRequest, *kmsg.ShareAcknowledgeRequest, *kmsg.OffsetDeleteRequest, *kmsg.DescribeQuorumRequest,
		*kmsg.ListPartitionReassignmentsRequest, *kmsg.DescribeLogDirsRequest:
		return Outermost
	}
	return Everywhere
}

// A mirror builds a response with a failed element for each target in a request.
type mirror struct {
	Error
}

func (m mirror) answer(q, a reflect.Value) {
	copyIdentity(a, q)
	nested := false
	for _, names := range Lists {
		from, to := q.FieldByName(names.Request), a.FieldByName(names.Response)
		if !from.IsValid() || !to.IsValid() || m.Level == Outermost && names.Request != "Groups" && names.Request != "GroupIDs" {
			continue
		}
		for i := range from.Len() {
			nested = true
			elem := newElement(to.Type().Elem())
			if from.Index(i).Kind() == reflect.Struct {
				m.answer(from.Index(i), elem)
			} else {
				setBare(elem, names.Request, from.Index(i))
				m.set(elem)
			}
			to.Set(reflect.Append(to, elem))
		}
	}
	if !nested || m.Level != Innermost {
		m.set(a)
	}
}

// Whole returns Kafka's response to req if it fails as a whole before it is processed. message is
// the reason. Some APIs use general instead, the text of the code. Kafka: getErrorResponse of the
// request.
func Whole(req kmsg.Request, code int16, message, general string) kmsg.Response {
	e := Error{Code: code, Message: message, Level: LevelOf(req)}
	switch req.(type) {
	case *kmsg.DescribeConfigsRequest, *kmsg.FindCoordinatorRequest, *kmsg.DescribeQuorumRequest, *kmsg.AlterClientQuotasRequest,
		*kmsg.InitializeShareGroupStateRequest, *kmsg.ReadShareGroupStateRequest, *kmsg.WriteShareGroupStateRequest,
		*kmsg.DeleteShareGroupStateRequest, *kmsg.ReadShareGroupStateSummaryRequest:
		e.Message = general
	case *kmsg.AlterShareGroupOffsetsRequest, *kmsg.DeleteShareGroupOffsetsRequest:
		e.Message, e.Level = general, Outermost
	case *kmsg.DescribeShareGroupOffsetsRequest:
		e.Level = Outermost
	case *kmsg.FetchRequest:
		if e.Level = Everywhere; req.GetVersion() >= 13 {
			e.Level = Outermost
		}
	case *kmsg.ListPartitionReassignmentsRequest:
		e.Level = Everywhere
	}
	resp := New(req, e)
	switch a := resp.(type) {
	case *kmsg.FetchResponse:
		a.SessionID = req.(*kmsg.FetchRequest).SessionID
		for _, t := range a.Topics {
			for i := range t.Partitions {
				t.Partitions[i].AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
		}
	case *kmsg.JoinGroupResponse:
		a.MemberID = ""
	case *kmsg.ConsumerGroupHeartbeatResponse:
		a.MemberID = nil
	case *kmsg.ShareGroupHeartbeatResponse:
		a.MemberID = nil
	case *kmsg.StreamsGroupHeartbeatResponse:
		a.MemberID, a.Status = "", []kmsg.StreamsGroupHeartbeatResponseStatus{}
	case *kmsg.DescribeClusterResponse:
		a.EndpointType = 1
	case *kmsg.DescribeLogDirsResponse:
		a.Dirs = nil
	case *kmsg.MetadataResponse:
		for i := range a.Topics {
			if a.Topics[i].Topic == nil {
				a.Topics[i].Topic = kmsg.StringPtr("")
			}
		}
	case *kmsg.CreateTopicsResponse:
		for i := range a.Topics {
			a.Topics[i].Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
	case *kmsg.CreateDelegationTokenResponse: // Kafka names the anonymous principal
		a.PrincipalType, a.PrincipalName = "User", "ANONYMOUS"
		a.TokenRequesterPrincipalType, a.TokenRequesterPrincipalName = "User", "ANONYMOUS"
		a.IssueTimestamp, a.ExpiryTimestamp, a.MaxTimestamp = -1, -1, -1
	case *kmsg.AlterUserSCRAMCredentialsResponse: // each user once
		seen := map[string]bool{}
		a.Results = slices.DeleteFunc(a.Results, func(r kmsg.AlterUserSCRAMCredentialsResponseResult) bool {
			again := seen[r.User]
			seen[r.User] = true
			return again
		})
	case *kmsg.DescribeUserSCRAMCredentialsResponse:
		for _, u := range req.(*kmsg.DescribeUserSCRAMCredentialsRequest).Users {
			r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			r.User, r.ErrorCode, r.ErrorMessage = u.Name, e.Code, e.message()
			a.Results = append(a.Results, r)
		}
	}
	return resp
}

// Instead returns an element that fails with e and has the same target as answer, an element of a
// list in a response.
func Instead(answer reflect.Value, e Error) reflect.Value {
	failed := newElement(answer.Type())
	copyIdentity(failed, answer)
	e.set(failed)
	return failed
}

// newElement returns an element of a list with kmsg's defaults, which are Kafka's.
func newElement(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if d, ok := v.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return v.Elem()
}

func copyIdentity(to, from reflect.Value) {
	for _, name := range Identity {
		f, t := from.FieldByName(name), to.FieldByName(name)
		switch {
		case !f.IsValid() || !t.IsValid():
		case f.Type() == t.Type():
			t.Set(f)
		case t.Kind() == reflect.Pointer && t.Type().Elem() == f.Type():
			// a topic's name, which some responses can leave out
			t.Set(reflect.New(f.Type()))
			t.Elem().Set(f)
		}
	}
}

// setBare sets the field of elem that identifies its target. v is the target in the request's list,
// a bare name or number.
func setBare(elem reflect.Value, list string, v reflect.Value) {
	field := map[string]string{"Partitions": "Partition", "TopicNames": "Topic", "Groups": "Group", "GroupIDs": "GroupID", "CoordinatorKeys": "Key", "TransactionalIDs": "TransactionalID"}[list]
	f := elem.FieldByName(field)
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.New(f.Type().Elem()))
		f = f.Elem()
	}
	f.Set(v)
}

// set sets the error fields of one element, and Kafka's defaults beside an error.
func (e Error) set(v reflect.Value) {
	f := v.FieldByName("ErrorCode")
	if !f.IsValid() {
		return
	}
	f.SetInt(int64(e.Code))
	if f := v.FieldByName("ErrorMessage"); f.IsValid() && f.Kind() == reflect.Pointer {
		f.Set(reflect.ValueOf(e.message()))
	}
	// values that Kafka sends beside an error and that are not kmsg's defaults
	switch a := v.Addr().Interface().(type) {
	case *kmsg.ProduceResponseTopicPartition:
		a.BaseOffset, a.LogAppendTime, a.LogStartOffset = -1, -1, -1
	case *kmsg.FetchResponseTopicPartition:
		a.HighWatermark, a.LastStableOffset, a.LogStartOffset, a.PreferredReadReplica, a.RecordBatches = -1, -1, -1, -1, []byte{}
	case *kmsg.ListOffsetsResponseTopicPartition:
		a.Timestamp, a.Offset, a.LeaderEpoch = -1, -1, -1
	case *kmsg.DeleteRecordsResponseTopicPartition:
		a.LowWatermark = -1
	case *kmsg.OffsetForLeaderEpochResponseTopicPartition:
		a.LeaderEpoch, a.EndOffset = -1, -1
	case *kmsg.OffsetFetchResponseTopicPartition:
		a.Offset, a.LeaderEpoch, a.Metadata = -1, -1, kmsg.StringPtr("")
	case *kmsg.OffsetFetchResponseGroupTopicPartition:
		a.Offset, a.LeaderEpoch, a.Metadata = -1, -1, kmsg.StringPtr("")
	case *kmsg.FindCoordinatorResponse:
		a.NodeID, a.Port = -1, -1
	case *kmsg.FindCoordinatorResponseCoordinator:
		a.NodeID, a.Port = -1, -1
	}
}

// finish sets the fields outside the elements of Lists.
func (e Error) finish(req kmsg.Request, resp kmsg.Response) {
	switch a := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		// with this error Kafka sends the supported versions of ApiVersions (KIP-511)
		if e.Code == unsupportedVersion {
			a.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: req.Key(), MaxVersion: req.MaxVersion()}}
		}
	case *kmsg.JoinGroupResponse:
		a.Generation = -1
		if a.Version < 7 {
			a.Protocol = kmsg.StringPtr("")
		}
	case *kmsg.InitProducerIDResponse:
		a.ProducerID, a.ProducerEpoch = -1, -1
	case *kmsg.EndTxnResponse:
		a.ProducerID, a.ProducerEpoch = -1, -1
	case *kmsg.DescribeLogDirsResponse:
		if a.Version < 3 { // there is no error at the top: one directory has it
			dir := kmsg.NewDescribeLogDirsResponseDir()
			dir.ErrorCode = e.Code
			a.Dirs = append(a.Dirs, dir)
		}
	case *kmsg.DescribeClusterResponse:
		a.ControllerID = -1
	case *kmsg.CreateACLsResponse: // one result for each creation, without a name
		for range req.(*kmsg.CreateACLsRequest).Creations {
			r := kmsg.NewCreateACLsResponseResult()
			r.ErrorCode, r.ErrorMessage = e.Code, e.message()
			a.Results = append(a.Results, r)
		}
	case *kmsg.DeleteACLsResponse:
		for range req.(*kmsg.DeleteACLsRequest).Filters {
			r := kmsg.NewDeleteACLsResponseResult()
			r.ErrorCode, r.ErrorMessage = e.Code, e.message()
			a.Results = append(a.Results, r)
		}
	case *kmsg.AlterClientQuotasResponse:
		for _, entry := range req.(*kmsg.AlterClientQuotasRequest).Entries {
			r := kmsg.NewAlterClientQuotasResponseEntry()
			for _, of := range entry.Entity {
				r.Entity = append(r.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: of.Type, Name: of.Name})
			}
			r.ErrorCode, r.ErrorMessage = e.Code, e.message()
			a.Entries = append(a.Entries, r)
		}
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		q := req.(*kmsg.AlterUserSCRAMCredentialsRequest)
		for _, d := range q.Deletions {
			a.Results = append(a.Results, e.user(d.Name))
		}
		for _, u := range q.Upsertions {
			a.Results = append(a.Results, e.user(u.Name))
		}
	}
}

func (e Error) user(name string) kmsg.AlterUserSCRAMCredentialsResponseResult {
	r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
	r.User, r.ErrorCode, r.ErrorMessage = name, e.Code, e.message()
	return r
}
