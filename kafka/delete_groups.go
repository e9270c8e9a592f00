package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteGroups deletes groups without members, and their offsets. The response has a group once,
// even if the request has it twice. Key 42, versions 0 to 2.
func (c *call) deleteGroups(req *kmsg.DeleteGroupsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	done := make(map[string]bool, len(req.Groups))
	for _, id := range each(c, req.Groups) {
		if done[id] {
			continue
		}
		done[id] = true
		err := c.groups.DeleteGroup(c.ctx, id)
		rg := kmsg.NewDeleteGroupsResponseGroup()
		rg.Group, rg.ErrorCode = id, c.errorCode(err)
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}
