package main

import (
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/record"
)

// decodeShares decodes a record of __share_group_state. It returns nil if the type of the key is
// unknown; the bytes are printed then.
func decodeShares(r *record.Record) any {
	rec, known, err := sharelog.ParseRecord(r.Key, r.Value)
	switch {
	case err != nil:
		return fields{{"kind", "share"}, {"error", err.Error()}, {"bytes", len(r.Value)}}
	case !known:
		return nil
	}
	kind := "shareSnapshot"
	if rec.Update {
		kind = "shareUpdate"
	}
	out := fields{{"kind", kind}, {"group", rec.Key.Group}, {"topicId", uuid(rec.Key.TopicID)}, {"partition", rec.Key.Partition}}
	v := rec.Value
	if v == nil {
		return append(out, field{"tombstone", true})
	}
	out = append(out, field{"snapshotEpoch", v.SnapshotEpoch})
	if !rec.Update {
		out = append(out, field{"stateEpoch", v.StateEpoch}, field{"createMs", v.CreateMs}, field{"writeMs", v.WriteMs})
	}
	out = append(out, field{"leaderEpoch", v.LeaderEpoch}, field{"startOffset", v.Start})
	if v.Complete >= 0 {
		out = append(out, field{"deliveryCompleteCount", v.Complete})
	}
	batches := []fields{}
	for _, b := range v.Batches {
		state, ok := deliveryStates[b.State]
		if !ok {
			state = "unknown"
		}
		batches = append(batches, fields{{"firstOffset", b.First}, {"lastOffset", b.Last}, {"deliveryState", state}, {"deliveryCount", b.Count}})
	}
	return append(out, field{"batches", batches})
}

// deliveryStates are the names of the stored delivery states. Kafka: RecordState.
var deliveryStates = map[int8]string{0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 4: "ARCHIVED"}
