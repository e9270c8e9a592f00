package kafkatest

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
	"github.com/stratalog/strata/kafka"
)

// faultMessage is the error message of injected errors, in APIs with a message.
const faultMessage = "injected by kafkatest"

// errorResponse returns a response that fails all of req with code, well-formed in req's version.
// It has a result for every target of req, and the defaults that Kafka sends with an error. If part
// is set, req is only a part of the client's request, so the code must not be at the top level.
func errorResponse(req kmsg.Request, code kafka.Code, part bool) kmsg.Response {
	return errorreply.New(req, errorreply.Error{Code: int16(code), Message: faultMessage, Level: levelOf(req, code, part)})
}

// levelOf returns the place of code in Kafka's response to req. Source: the handlers in KafkaApis,
// for codes that concern one partition.
func levelOf(req kmsg.Request, code kafka.Code, part bool) errorreply.Level {
	ofPartition := part || slices.Contains(partitionCodes, code)
	switch kafka.Key(req.Key()) {
	case kafka.Fetch:
		if slices.Contains(sessionCodes, code) {
			return errorreply.Outermost
		}
		return errorreply.Innermost
	case kafka.ShareFetch, kafka.ShareAcknowledge, kafka.OffsetFetch, kafka.OffsetDelete, kafka.DescribeQuorum, kafka.ElectLeaders, kafka.AddPartitionsToTxn:
		if ofPartition {
			return errorreply.Innermost
		}
	}
	return errorreply.LevelOf(req)
}

// partitionCodes are about a topic or a partition, never about a group or a whole request.
var partitionCodes = []kafka.Code{kafka.OffsetOutOfRange, kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderOrFollower,
	kafka.OffsetMetadataTooLarge, kafka.InvalidTopicException, kafka.TopicAuthorizationFailed, kafka.KafkaStorageError,
	kafka.PreferredLeaderNotAvailable, kafka.EligibleLeadersNotAvailable, kafka.ElectionNotNeeded, kafka.GroupSubscribedToTopic,
	kafka.UnstableOffsetCommit, kafka.UnknownTopicID}

// sessionCodes are about a fetch session.
var sessionCodes = []kafka.Code{kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError}
