package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/replication"
)

// Match types of a component of a filter.
const (
	matchExact   = 0
	matchDefault = 1
	matchAny     = 2
)

// describeClientQuotas returns the quotas of the entities that match a filter (KIP-546). An entity
// matches if it has every part of the filter, with a matching name. A strict filter matches only
// entities without other parts. Version 1 is flexible, with the same fields as version 0. Entities
// and their keys are sorted; Kafka has no order. Key 48, versions 0 and 1.
func (c *call) describeClientQuotas(req *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	if err := checkQuotaFilter(req.Components); err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	none := ""
	resp.ErrorMessage, resp.Entries = &none, []kmsg.DescribeClientQuotasResponseEntry{}
	// last is the entity of the last entry. It is zero before the first: no quota has the zero
	// entity.
	var last replication.QuotaEntity
	for q := range c.s.cluster.ClientQuotas().All() {
		if !meansQuota(req, q.Entity) {
			continue
		}
		if q.Entity != last {
			last = q.Entity
			resp.Entries = append(resp.Entries, describedQuota(q.Entity))
		}
		e := &resp.Entries[len(resp.Entries)-1]
		e.Values = append(e.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: string(q.Key), Value: q.Value})
	}
	return resp
}

func describedQuota(entity replication.QuotaEntity) kmsg.DescribeClientQuotasResponseEntry {
	e := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, p := range clientquota.Parts {
		if n := *entity.Part(p); n.Given() {
			re := kmsg.DescribeClientQuotasResponseEntryEntity{Type: string(p)}
			if !n.Default {
				re.Name = &n.Name
			}
			e.Entity = append(e.Entity, re)
		}
	}
	return e
}

// checkQuotaFilter returns an error with Kafka's message for an invalid filter. Kafka:
// ClientQuotasImage.describe.
func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) error {
	seen := map[clientquota.Part]bool{}
	for _, f := range components {
		part, problem := clientquota.Part(f.EntityType), ""
		switch {
		case f.EntityType == "":
			problem = "Invalid empty entity type."
		case seen[part]:
			problem = "Entity type " + f.EntityType + " cannot appear more than once in the filter."
		case new(replication.QuotaEntity).Part(part) == nil:
			return refuse(UnsupportedVersion, "Unsupported entity type "+f.EntityType)
		case f.MatchType == matchExact && f.Match == nil:
			problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
		case f.MatchType == matchDefault && f.Match != nil:
			problem = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
		case f.MatchType == matchAny && f.Match != nil:
			problem = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
		case f.MatchType < matchExact || f.MatchType > matchAny:
			problem = fmt.Sprintf("Unknown match type %d", f.MatchType)
		}
		if problem != "" {
			return refuse(InvalidRequest, problem)
		}
		seen[part] = true
	}
	if seen[clientquota.IP] && len(seen) > 1 {
		return refuse(InvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return nil
}

// meansQuota reports whether an entity matches a filter.
func meansQuota(req *kmsg.DescribeClientQuotasRequest, e replication.QuotaEntity) bool {
	given := 0
	for _, p := range clientquota.Parts {
		if e.Part(p).Given() {
			given++
		}
	}
	for _, f := range req.Components {
		n := *e.Part(clientquota.Part(f.EntityType))
		switch {
		case !n.Given(),
			f.MatchType == matchExact && (n.Default || n.Name != *f.Match),
			f.MatchType == matchDefault && !n.Default:
			return false
		}
	}
	return !req.Strict || given == len(req.Components)
}
