package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/replication"
)

// alterClientQuotas sets and removes quotas (KIP-546) of users, client ids and both, or of
// addresses. Version 1 is flexible, with the same fields as version 0. The response has each
// entity once, in the order of the request; Kafka has no order. An entity that occurs twice gets
// an error, and its first change is applied, as in Kafka. Key 49, versions 0 and 1.
//
// Deviations: an address is not looked up, so a host name is not an entity. NaN is an error; Kafka
// stores it.
func (c *call) alterClientQuotas(req *kmsg.AlterClientQuotasRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	var changes []replication.QuotaChange
	malformed := map[int]error{} // by index in req.Entries
	asked := make([]replication.QuotaEntity, len(req.Entries))
	for i, e := range req.Entries {
		if asked[i], malformed[i] = quotaEntity(e.Entity); malformed[i] != nil {
			continue
		}
		ch := replication.QuotaChange{Entity: asked[i]}
		for _, op := range e.Ops {
			ch.Changes = append(ch.Changes, replication.QuotaValue{Key: replication.QuotaKey(op.Key), Value: op.Value, Remove: op.Remove})
		}
		changes = append(changes, ch)
	}
	var refused map[replication.QuotaEntity]error
	var err error
	switch {
	case req.ValidateOnly:
		refused, err = c.s.cluster.CheckClientQuotas(changes...)
	case len(changes) > 0:
		refused, err = c.s.cluster.AlterClientQuotas(c.ctx, changes...)
	}
	answered := map[replication.QuotaEntity]bool{}
	for i, e := range req.Entries {
		if malformed[i] == nil {
			if answered[asked[i]] {
				continue
			}
			answered[asked[i]] = true
		}
		re := answeredQuota(e)
		if why := errors.Join(err, malformed[i], refused[asked[i]]); why != nil {
			re.ErrorCode, re.ErrorMessage = c.errorCode(why), errorMessage(why)
		}
		resp.Entries = append(resp.Entries, re)
	}
	return resp
}

// quotaEntity returns the entity of a request. If a type occurs twice, its last name is used.
func quotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (e replication.QuotaEntity, err error) {
	for _, p := range lastOfEachType(parts) {
		n := e.Part(clientquota.Part(p.Type))
		switch {
		case n == nil:
			return replication.QuotaEntity{}, refuse(InvalidRequest, "Unhandled client quota entity type: "+p.Type)
		case p.Name == nil:
			*n = clientquota.Default
		case *p.Name == "":
			return replication.QuotaEntity{}, refuse(InvalidRequest, "Empty "+p.Type+" not supported")
		default:
			*n = clientquota.Named(*p.Name)
		}
	}
	return e, nil
}

// lastOfEachType returns each type of an entity once, at its first position, with its last name.
func lastOfEachType(parts []kmsg.AlterClientQuotasRequestEntryEntity) (once []kmsg.AlterClientQuotasResponseEntryEntity) {
	at := map[string]int{}
	for _, p := range parts {
		i, ok := at[p.Type]
		if !ok {
			i, at[p.Type] = len(once), len(once)
			once = append(once, kmsg.AlterClientQuotasResponseEntryEntity{Type: p.Type})
		}
		once[i].Name = p.Name
	}
	return once
}

// answeredQuota returns the response entry for an entry of the request, without an error.
func answeredQuota(e kmsg.AlterClientQuotasRequestEntry) kmsg.AlterClientQuotasResponseEntry {
	re := kmsg.NewAlterClientQuotasResponseEntry()
	re.Entity = lastOfEachType(e.Entity)
	return re
}

// refusedQuotas returns an error for each entry of an AlterClientQuotas request.
func refusedQuotas(req *kmsg.AlterClientQuotasRequest, code Code, text *string) (entries []kmsg.AlterClientQuotasResponseEntry) {
	for _, e := range req.Entries {
		re := answeredQuota(e)
		re.ErrorCode, re.ErrorMessage = int16(code), text
		entries = append(entries, re)
	}
	return entries
}
