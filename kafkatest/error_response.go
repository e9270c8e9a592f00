package kafkatest

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// faultMessage is the error message of injected errors, in the APIs that have one.
const faultMessage = "injected by kafkatest"

// identity are the fields of a response by which clients know what an answer is
// for: they are copied from the request.
var identity = []string{"TransactionalID", "ProducerID", "Topic", "TopicID", "Partition", "Group", "GroupID", "Key", "CoordinatorKey", "ResourceType", "ResourceName",
	"MemberID", "ClientInstanceID", "EndpointType"}

// level says where in a response an error code goes.
type level int

const (
	everywhere level = iota // at the top and in every answer below it
	innermost               // in the answers for single partitions, topics or groups only
	outermost               // at the top only, and no answers below
)

// errorResponse returns the answer of a broker that fails the whole of req with code, well-formed
// in req's version: an answer for everything that req asks about, with the defaults that Kafka
// sends beside an error. part says that only part of the client's request fails, so that the code
// must not be put where it would count for all.
func errorResponse(req kmsg.Request, code kafka.Code, part bool) kmsg.Response {
	resp := newResponse(req)
	m := mirror{code: code, level: levelOf(req, code, part)}
	m.answer(reflect.ValueOf(req).Elem(), reflect.ValueOf(resp).Elem())
	finish(req, resp, code)
	return resp
}

// newResponse returns an empty response to req in its version.
func newResponse(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	if d, ok := resp.(interface{ Default() }); ok {
		d.Default()
	}
	resp.SetVersion(req.GetVersion())
	return resp
}

// levelOf returns where Kafka puts code in the answer to req. Source: the getErrorResponse methods
// of Kafka's requests, and what its handlers do with codes that concern one partition.
func levelOf(req kmsg.Request, code kafka.Code, part bool) level {
	ofPartition := part || slices.Contains(partitionCodes, code)
	switch kafka.Key(req.Key()) {
	case kafka.Fetch:
		if slices.Contains(sessionCodes, code) {
			return outermost
		}
		return innermost
	case kafka.ShareFetch, kafka.ShareAcknowledge:
		if ofPartition {
			return innermost
		}
		return outermost
	case kafka.OffsetFetch:
		if ofPartition || req.GetVersion() < 2 {
			return innermost
		}
		return outermost // its groups are answered all the same
	case kafka.OffsetDelete, kafka.DescribeQuorum, kafka.ElectLeaders:
		if ofPartition {
			return innermost
		}
		if kafka.Key(req.Key()) == kafka.ElectLeaders {
			return everywhere
		}
		return outermost
	case kafka.ListPartitionReassignments, kafka.DescribeLogDirs:
		return outermost
	case kafka.AddPartitionsToTxn:
		if ofPartition || req.GetVersion() < 4 {
			return innermost
		}
		return outermost
	}
	return everywhere
}

// partitionCodes are about a topic or a partition, never about a group or a whole request.
var partitionCodes = []kafka.Code{kafka.OffsetOutOfRange, kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderOrFollower,
	kafka.OffsetMetadataTooLarge, kafka.InvalidTopicException, kafka.TopicAuthorizationFailed, kafka.KafkaStorageError,
	kafka.PreferredLeaderNotAvailable, kafka.EligibleLeadersNotAvailable, kafka.ElectionNotNeeded, kafka.GroupSubscribedToTopic,
	kafka.UnstableOffsetCommit, kafka.UnknownTopicID}

// sessionCodes are about a fetch session.
var sessionCodes = []kafka.Code{kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError}

// A mirror builds a response that has an answer with an error for everything in a request.
type mirror struct {
	code  kafka.Code
	level level
}

func (m mirror) answer(q, a reflect.Value) {
	copyIdentity(a, q)
	nested := false
	for _, names := range requestLists {
		from, to := q.FieldByName(names.request), a.FieldByName(names.response)
		if !from.IsValid() || !to.IsValid() || m.level == outermost && names.request != "Groups" && names.request != "GroupIDs" {
			continue
		}
		for i := range from.Len() {
			nested = true
			elem := newElement(to.Type().Elem())
			if from.Index(i).Kind() == reflect.Struct {
				m.answer(from.Index(i), elem)
			} else {
				setBare(elem, names.request, from.Index(i))
				setError(elem, m.code)
			}
			to.Set(reflect.Append(to, elem))
		}
	}
	if !nested || m.level != innermost {
		setError(a, m.code)
	}
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
	for _, name := range identity {
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

// setBare names what elem is the answer for, given an element of a list of the
// request that is a bare name or number.
func setBare(elem reflect.Value, list string, v reflect.Value) {
	field := map[string]string{"Partitions": "Partition", "TopicNames": "Topic", "Groups": "Group", "GroupIDs": "GroupID", "CoordinatorKeys": "Key", "TransactionalIDs": "TransactionalID"}[list]
	f := elem.FieldByName(field)
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.New(f.Type().Elem()))
		f = f.Elem()
	}
	f.Set(v)
}

// setError sets the fields of one answer that say what went wrong.
func setError(v reflect.Value, code kafka.Code) {
	f := v.FieldByName("ErrorCode")
	if !f.IsValid() {
		return
	}
	f.SetInt(int64(code))
	if f := v.FieldByName("ErrorMessage"); f.IsValid() && f.Kind() == reflect.Pointer {
		f.Set(reflect.ValueOf(kmsg.StringPtr(faultMessage)))
	}
	// what Kafka sends beside an error and kmsg does not know as a default
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

// finish sets what depends on more than one answer.
func finish(req kmsg.Request, resp kmsg.Response, code kafka.Code) {
	switch a := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		// the one error that says what would have been right (KIP-511)
		if code == kafka.UnsupportedVersion {
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
		if a.Version < 3 { // no error at the top: one directory that has it
			dir := kmsg.NewDescribeLogDirsResponseDir()
			dir.ErrorCode = int16(code)
			a.Dirs = append(a.Dirs, dir)
		}
	case *kmsg.DescribeClusterResponse:
		a.ControllerID = -1
	case *kmsg.CreateACLsResponse: // its results name nothing: there is one for each creation
		for range req.(*kmsg.CreateACLsRequest).Creations {
			r := kmsg.NewCreateACLsResponseResult()
			r.ErrorCode, r.ErrorMessage = int16(code), kmsg.StringPtr(faultMessage)
			a.Results = append(a.Results, r)
		}
	case *kmsg.DeleteACLsResponse:
		for range req.(*kmsg.DeleteACLsRequest).Filters {
			r := kmsg.NewDeleteACLsResponseResult()
			r.ErrorCode, r.ErrorMessage = int16(code), kmsg.StringPtr(faultMessage)
			a.Results = append(a.Results, r)
		}
	case *kmsg.AlterClientQuotasResponse:
		for _, e := range req.(*kmsg.AlterClientQuotasRequest).Entries {
			r := kmsg.NewAlterClientQuotasResponseEntry()
			for _, of := range e.Entity {
				r.Entity = append(r.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: of.Type, Name: of.Name})
			}
			r.ErrorCode, r.ErrorMessage = int16(code), kmsg.StringPtr(faultMessage)
			a.Entries = append(a.Entries, r)
		}
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		q := req.(*kmsg.AlterUserSCRAMCredentialsRequest)
		for _, d := range q.Deletions {
			a.Results = append(a.Results, refusedUser(d.Name, code))
		}
		for _, u := range q.Upsertions {
			a.Results = append(a.Results, refusedUser(u.Name, code))
		}
	}
}

func refusedUser(name string, code kafka.Code) kmsg.AlterUserSCRAMCredentialsResponseResult {
	r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
	r.User, r.ErrorCode, r.ErrorMessage = name, int16(code), kmsg.StringPtr(faultMessage)
	return r
}
