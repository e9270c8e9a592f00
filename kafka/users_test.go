package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func upsertion(name string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = name, mechanism, iterations, []byte("salt"), make([]byte, 32)
	return u
}

func deletion(name string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
	d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	d.Name, d.Mechanism = name, mechanism
	return d
}

func TestUsersAreAlteredAndDescribedAsInKafka(t *testing.T) {
	_, addr := serveCluster(t, withUsers(t), Config{})
	c := dial(t, addr)
	alter := func(edit func(*kmsg.AlterUserSCRAMCredentialsRequest)) map[string]string {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		edit(req)
		got := map[string]string{}
		for _, r := range c.ask(req).(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
			require.NotContains(t, got, r.User)
			if got[r.User] = Code(r.ErrorCode).String(); r.ErrorMessage != nil {
				got[r.User] += ": " + *r.ErrorMessage
			}
		}
		return got
	}
	require.Equal(t, map[string]string{
		"dave": "NONE", "few": "UNACCEPTABLE_CREDENTIAL: Too few iterations", "many": "UNACCEPTABLE_CREDENTIAL: Too many iterations", "": "UNACCEPTABLE_CREDENTIAL: Username must not be empty",
		"odd": "UNSUPPORTED_SASL_MECHANISM: Unknown SCRAM mechanism", "twice": "DUPLICATE_RESOURCE: A user credential cannot be altered twice in the same request",
		"first": "UNACCEPTABLE_CREDENTIAL: Too few iterations", "second": "DUPLICATE_RESOURCE: A user credential cannot be altered twice in the same request",
		"bob": "DUPLICATE_RESOURCE: A user credential cannot be altered twice in the same request", "gone": "RESOURCE_NOT_FOUND: Attempt to delete a user credential that does not exist",
	}, alter(func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
		r.Upsertions = append(r.Upsertions, upsertion("dave", 1, 4096), upsertion("few", 1, 4095), upsertion("many", 2, 16385), upsertion("", 1, 4096), upsertion("odd", 3, 4096),
			upsertion("twice", 1, 4096), upsertion("twice", 2, 4096), upsertion("bob", 1, 4096),
			upsertion("first", 1, 4095), upsertion("first", 1, 4096), upsertion("second", 1, 4096), upsertion("second", 1, 4095))
		r.Deletions = append(r.Deletions, deletion("bob", 2), deletion("gone", 1))
	}))
	require.Equal(t, map[string]string{"erin": "UNACCEPTABLE_CREDENTIAL: The salted password must not be empty"}, alter(func(r *kmsg.AlterUserSCRAMCredentialsRequest) {
		r.Upsertions = append(r.Upsertions, upsertion("erin", 1, 4096))
		r.Upsertions[0].SaltedPassword = nil
	}), "anybody could make the proof")
	require.Equal(t, map[string]string{"bob": "NONE"}, alter(func(r *kmsg.AlterUserSCRAMCredentialsRequest) { r.Deletions = append(r.Deletions, deletion("bob", 2)) }))

	describe := func(users ...string) (got []string) {
		req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, u := range users {
			req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: u})
		}
		resp := c.ask(req).(*kmsg.DescribeUserSCRAMCredentialsResponse)
		require.Zero(t, resp.ErrorCode)
		for _, r := range resp.Results {
			line := r.User
			for _, i := range r.CredentialInfos {
				line += " " + string('0'+rune(i.Mechanism))
				require.EqualValues(t, 4096, i.Iterations)
			}
			if r.ErrorMessage != nil {
				line += " " + Code(r.ErrorCode).String() + ": " + *r.ErrorMessage
			}
			got = append(got, line)
		}
		return got
	}
	require.Equal(t, []string{"alice 1 2", "bob 1", "dave 1"}, describe())
	require.Equal(t, []string{
		"alice DUPLICATE_RESOURCE: Cannot describe SCRAM credentials for the same user twice in a single request: alice", "bob 1",
		"gone RESOURCE_NOT_FOUND: Attempt to describe a user credential that does not exist: gone",
	}, describe("gone", "alice", "bob", "alice"))
}

// A new password counts at once, and a removed one is rejected at once.
func TestChangesOfUsersCountAtOnce(t *testing.T) {
	n := newSASLNetwork(t, Config{}, nil)
	require.NotZero(t, asPlain(n.dial(), "erin", "first").ErrorCode)
	require.NoError(t, n.cluster.SetPassword(t.Context(), "erin", "first"))
	old := n.dial()
	require.Zero(t, asPlain(old, "erin", "first").ErrorCode)
	require.NoError(t, n.cluster.SetPassword(t.Context(), "erin", "second"))
	require.NotZero(t, asPlain(n.dial(), "erin", "first").ErrorCode)
	require.Zero(t, asPlain(n.dial(), "erin", "second").ErrorCode)
	require.True(t, serves(old), "connections stay, as in Kafka")
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Deletions = append(req.Deletions, deletion("erin", 1))
	require.Zero(t, old.ask(req).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode)
	req.Deletions[0].Mechanism = 2
	require.Zero(t, old.ask(req).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode)
	require.NotZero(t, asPlain(n.dial(), "erin", "second").ErrorCode)
	require.Error(t, n.cluster.SetPassword(t.Context(), "erin", ""))
	require.Error(t, n.cluster.SetPassword(t.Context(), "", "x"))
}
