package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAnswersToAUserOfFewRightsAreKafkas sends random requests as a user with few rights. Each
// script grants other rights, and none on the hidden objects. An answer of Strata may not reveal a
// hidden name that Kafka's does not.
func TestAnswersToAUserOfFewRightsAreKafkas(t *testing.T) {
	t.Parallel()
	requests, next := howMany(t, 250, 12_500, 100)
	c := newCampaign(t)
	c.users = fews
	c.send(t, requests, next)
	c.seen.report(t, c.versions)
}

// hidden is part of the names that the user must not learn.
const hidden = "hidden"

// leaks returns a difference if Strata's answer reveals a hidden name, and Kafka's answer and the
// request do not.
func leaks(asked, theirs, ours string) []difference {
	if strings.Contains(ours, hidden) && !strings.Contains(theirs, hidden) && !strings.Contains(asked, hidden) {
		return []difference{{"", "", "keeps a secret", "tells of what is " + hidden}}
	}
	return nil
}

// openingOfFew creates the hidden objects, and grants some rights.
func (x *script) openingOfFew() []func(*model) kmsg.Request {
	g := newGen(x.seed, -2, x.m)
	return []func(*model) kmsg.Request{
		func(m *model) kmsg.Request {
			r := opening[0](m).(*kmsg.CreateTopicsRequest)
			r.Topics = r.Topics[:1]
			r.Topics[0].Topic = m.name(hidden)
			return r
		},
		func(m *model) kmsg.Request {
			r, t, p := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
			r.Version, r.Group, t.Topic, p.Offset = 8, m.name(hidden), m.name(hidden), 7
			t.Partitions = append(t.Partitions, p)
			r.Topics = append(r.Topics, t)
			return r
		},
		func(m *model) kmsg.Request {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Version, r.Group = 8, m.groups[0].name
			for _, name := range []string{m.topics[0].name, m.topics[1].name, m.name(hidden)} {
				t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
				t.Topic, p.Offset = name, 3
				t.Partitions = append(t.Partitions, p)
				r.Topics = append(r.Topics, t)
			}
			return r
		},
		func(m *model) kmsg.Request {
			r := kmsg.NewPtrInitProducerIDRequest()
			r.Version, r.TransactionalID, r.TransactionTimeoutMillis = 4, ptr(m.name(hidden)), 60_000
			return r
		},
		func(*model) kmsg.Request { return x.grants(g) },
	}
}

// grants returns a request that adds rights of the user, or removes some.
func (x *script) grants(g *gen) kmsg.Request {
	if g.one(8) {
		r, f := kmsg.NewPtrDeleteACLsRequest(), kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.Principal, f.PermissionType = pick[kmsg.ACLResourceType](g, 1, 2, 3, 4, 5), 1, ptr("User:"+x.user), 1
		f.Operation = pick[kmsg.ACLOperation](g, 1, 3, 4, 8)
		r.Version, r.Filters = 3, append(r.Filters, f)
		return r
	}
	r := kmsg.NewPtrCreateACLsRequest()
	r.Version = 3
	for range pick(g, 1, 2, 3, 5, 8, 12) {
		r.Creations = append(r.Creations, x.grant(g))
	}
	return r
}

func (x *script) grant(g *gen) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	names := map[kmsg.ACLResourceType][]string{
		2: {"t0", "t1", "gone", "t", "t"}, 3: {"g", "n", "s", "g", "n", "s"}, 4: {""}, 5: {"x1", "x2", "x"}, 6: {""},
	}
	operations := map[kmsg.ACLResourceType][]kmsg.ACLOperation{
		2: {2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 10, 11}, 3: {2, 3, 3, 6, 8, 10, 11}, 4: {5, 7, 8, 9, 10, 11, 12}, 5: {2, 4, 4, 8, 15}, 6: {8},
	}
	c.ResourceType = pick[kmsg.ACLResourceType](g, 2, 2, 2, 2, 3, 3, 3, 4, 5, 5)
	name := pick(g, names[c.ResourceType]...)
	c.ResourceName, c.ResourcePatternType = x.m.name(name), 3
	if name == "t" || name == "x" || g.one(5) {
		c.ResourcePatternType = 4
	}
	if c.ResourceType == 3 && x.m.streaming {
		c.ResourceName = x.m.groups[streamsGroup].name
	}
	if c.ResourceType == 4 {
		c.ResourceName, c.ResourcePatternType = "kafka-cluster", 3
	}
	c.Operation = pick(g, operations[c.ResourceType]...)
	c.Principal, c.Host, c.PermissionType = "User:"+x.user, pick(g, "*", "*", "*", "127.0.0.1", "127.0.0.2"), pick[kmsg.ACLPermissionType](g, 3, 3, 3, 3, 2)
	return c
}

// revoke removes all rights of the user.
func (r *referee) revoke() error {
	req, f := kmsg.NewPtrDeleteACLsRequest(), kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType, f.Principal, f.Operation, f.PermissionType = 1, 1, ptr("User:"+r.user), 1, 1
	req.Version, req.Filters = 3, append(req.Filters, f)
	for _, c := range []*wireClient{r.super.theirs, r.super.ours} {
		got, err := c.ask(req)
		if err != nil {
			return err
		}
		if got == nil || got.(*kmsg.DeleteACLsResponse).Results[0].ErrorCode != 0 {
			return fmt.Errorf("rights of %s cannot be taken: %s", r.user, jsonOf(got))
		}
	}
	return r.settle()
}

func TestWhatIsHiddenIsNoticed(t *testing.T) {
	secret, err := json.Marshal("P-" + hidden)
	require.NoError(t, err)
	require.Len(t, leaks("{}", "{}", string(secret)), 1)
	require.Empty(t, leaks(string(secret), "{}", string(secret)), "it was named")
	require.Empty(t, leaks("{}", string(secret), string(secret)), "Kafka tells of it, too")
}
