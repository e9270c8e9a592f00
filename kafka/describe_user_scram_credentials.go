package kafka

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeUserScramCredentials returns the users with credentials, and their iterations (KIP-554),
// but nothing that helps to guess a password. No users, or a null list, means all. Results are
// sorted by name; Kafka has no order. Key 50, version 0.
func (c *call) describeUserScramCredentials(req *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	resp.ErrorMessage = kmsg.StringPtr("") // as in Kafka, which does not set it
	all := c.s.cluster.ScramUsers()
	times := map[string]int{}
	for _, u := range req.Users {
		times[u.Name]++
	}
	if len(req.Users) == 0 {
		for user := range all {
			times[user] = 1
		}
	}
	for _, user := range slices.Sorted(maps.Keys(times)) {
		r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		r.User = user
		refused := func(code Code, text string) {
			text += user
			r.ErrorCode, r.ErrorMessage = int16(code), &text
		}
		switch creds := all[user]; {
		case times[user] > 1:
			refused(DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: ")
		case len(creds) == 0:
			refused(ResourceNotFound, "Attempt to describe a user credential that does not exist: ")
		default:
			for _, cred := range creds {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = int8(cred.Mechanism), int32(cred.Iterations)
				r.CredentialInfos = append(r.CredentialInfos, info)
			}
		}
		resp.Results = append(resp.Results, r)
	}
	return resp
}
