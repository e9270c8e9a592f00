package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// alterUserScramCredentials sets and removes SCRAM credentials (KIP-554). Clients send salted
// passwords, never passwords. A request may have a user only once. Results are in the order of the
// request; Kafka has no order. Key 51, version 0.
func (c *call) alterUserScramCredentials(req *kmsg.AlterUserSCRAMCredentialsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	var changes []replication.ScramChange
	for _, d := range req.Deletions {
		m := replication.ScramMechanism(d.Mechanism)
		changes = append(changes, replication.ScramChange{User: d.Name, Delete: &m})
	}
	for _, u := range req.Upsertions {
		m := replication.ScramMechanism(u.Mechanism)
		ch := replication.ScramChange{User: u.Name}
		ch.Credential = replication.ScramCredential{Mechanism: m, Iterations: int(u.Iterations), Salt: u.Salt}
		if m.Valid() && len(u.SaltedPassword) > 0 { // without keys it is rejected
			ch.Credential = m.FromSalted(u.SaltedPassword, u.Salt, int(u.Iterations))
		}
		changes = append(changes, ch)
	}
	refused, err := c.s.cluster.AlterScramCredentials(c.ctx, changes...)
	answered := map[string]bool{}
	for _, ch := range changes {
		if answered[ch.User] {
			continue
		}
		answered[ch.User] = true
		r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		r.User = ch.User
		if why := errors.Join(err, refused[ch.User]); why != nil {
			r.ErrorCode, r.ErrorMessage = c.errorCode(why), errorMessage(why)
		}
		resp.Results = append(resp.Results, r)
	}
	return resp
}
