package main

import (
	"encoding/binary"
	"fmt"

	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// decodeTransactions decodes a record of __transaction_state. It returns nil if the version of the
// key is unknown; the bytes are printed then. Field names equal those of strata transactions
// --json.
func decodeTransactions(r *record.Record) any {
	rec, known, err := txnlog.ParseRecord(r.Key, r.Value)
	switch {
	case err != nil:
		return fields{{"kind", "transaction"}, {"error", err.Error()}, {"bytes", len(r.Value)}}
	case !known:
		return nil
	}
	out := fields{{"kind", "transaction"}, {"transactionalId", rec.ID}}
	v := rec.Value
	if v == nil {
		return append(out, field{"tombstone", true})
	}
	parts := []string{}
	for _, tp := range v.Partitions {
		parts = append(parts, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
	}
	out = append(out, field{"state", v.State.String()}, field{"producerId", v.ProducerID}, field{"producerEpoch", v.Epoch},
		field{"timeoutMs", v.TimeoutMs}, field{"partitions", parts}, field{"startMs", v.StartMs}, field{"updateMs", v.UpdateMs},
		field{"version", int16(binary.BigEndian.Uint16(r.Value))}) // every value begins with its version
	if v.PreviousID != -1 {
		out = append(out, field{"previousProducerId", v.PreviousID})
	}
	if v.NextID != -1 {
		out = append(out, field{"nextProducerId", v.NextID})
	}
	if v.ClientVersion != 0 {
		out = append(out, field{"clientTransactionVersion", v.ClientVersion})
	}
	if v.LastEpoch != -1 {
		out = append(out, field{"lastProducerEpoch", v.LastEpoch})
	}
	return out
}
