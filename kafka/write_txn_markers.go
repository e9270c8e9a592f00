package kafka

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// markerTimeout bounds the wait of a marker for the in-sync replicas. Kafka: request.timeout.ms of
// the broker.
const markerTimeout = 30 * time.Second

// writeTxnMarkers serves WriteTxnMarkers, which writes markers into partitions that this broker
// leads. Another coordinator sends it, or an operator to end a hanging transaction. Version 2 adds
// the transaction.version by which the transaction ends. Key 27, versions 1 and 2.
func (c *call) writeTxnMarkers(req *kmsg.WriteTxnMarkersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	var markers []replication.TxnMarker
	var errs []error // of each partition, in the order of the request
	var places []int // of markers, in errs
	for _, m := range req.Markers {
		for _, t := range m.Topics {
			id, known := c.s.cluster.TopicID(t.Topic)
			for _, p := range t.Partitions {
				if err := c.markable(m, known); err != nil {
					errs = append(errs, err)
					continue
				}
				places, errs = append(places, len(errs)), append(errs, nil)
				markers = append(markers, replication.TxnMarker{
					Partition: record.TopicPartition{Topic: t.Topic, Partition: p}, TopicID: id,
					TxnMarker: partition.TxnMarker{ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch,
						Commit: m.Committed, Timeout: markerTimeout, Version: int16(m.TransactionVersion)},
				})
			}
		}
	}
	var written sync.WaitGroup
	written.Add(len(markers))
	c.s.cluster.WriteTxnMarkers(replication.NetworkPath{From: c.broker, To: c.broker}, markers, c.ctx.Done(), func(i int, err error) {
		errs[places[i]] = err
		written.Done()
	})
	written.Wait()
	for _, m := range req.Markers {
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = m.ProducerID
		if len(m.Topics) == 0 {
			continue
		}
		for _, t := range m.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = t.Topic
			for i, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: c.errorCode(errs[i])})
			}
			errs = errs[len(t.Partitions):]
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return resp
}

// markable rejects a marker for a missing topic or with an invalid producer. Kafka:
// MemoryRecordsBuilder, whose IllegalArgumentException is an UNKNOWN_SERVER_ERROR.
func (c *call) markable(m kmsg.WriteTxnMarkersRequestMarker, known bool) error {
	switch {
	case !known:
		return replication.ErrUnknownTopic
	case m.ProducerID < 0 || m.ProducerEpoch < 0:
		return noText(UnknownServerError)
	}
	return nil
}
