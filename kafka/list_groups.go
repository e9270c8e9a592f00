package kafka

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
)

// listGroups serves ListGroups: the groups that this broker coordinates, filtered by state
// (KIP-518) and type (KIP-848) if requested. Filters are case-insensitive, and unknown names match
// nothing. Key 16, versions 0 to 5.
func (c *call) listGroups(req *kmsg.ListGroupsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	infos, err := c.groups.Groups(c.ctx)
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	states, types := lowered(req.StatesFilter), lowered(req.TypesFilter)
	for _, info := range infos {
		if !passes(states, stateFilter(info.State)) || !passes(types, string(info.Type)) {
			continue
		}
		rg := kmsg.NewListGroupsResponseGroup()
		rg.Group, rg.ProtocolType, rg.GroupState, rg.GroupType = info.ID, info.ProtocolType, info.State.String(), string(info.Type)
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

// stateFilter returns the name of a state in a client's filter. It is the name in the response,
// except for NotReady. Kafka: StreamsGroupState.toLowerCaseString.
func stateFilter(s group.State) string {
	if s == group.NotReady {
		return "not_ready"
	}
	return s.String()
}

// lowered returns the names of a filter in lower case. It returns a map because a request has room
// for 200,000 names, and there can be as many groups.
func lowered(filter []string) map[string]bool {
	names := map[string]bool{}
	for _, name := range filter {
		names[strings.ToLower(name)] = true
	}
	return names
}

// passes reports whether filter contains name; an empty filter passes all names.
func passes(filter map[string]bool, name string) bool {
	return len(filter) == 0 || filter[strings.ToLower(name)]
}
