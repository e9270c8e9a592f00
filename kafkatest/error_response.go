package kafkatest

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
	"github.com/stratalog/strata/kafka"
)

// faultMessage is the error message of injected errors, in the APIs that have one.
const faultMessage = "injected by kafkatest"

// errorResponse returns the answer of a broker that fails the whole of req with code, well-formed
// in req's version: with a result for every target of req, and the defaults that Kafka sends with
// an error. If part is set only a part of the client's request fails, so that the code must not be
// put where it would count for all.
func errorResponse(req kmsg.Request, code kafka.Code, part bool) kmsg.Response {
	return errorreply.New(req, errorreply.Error{Code: int16(code), Message: faultMessage, Level: levelOf(req, code, part)})
}

// levelOf returns where Kafka puts code in the answer to req. Source: what its handlers do with
// codes that concern one partition.
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
