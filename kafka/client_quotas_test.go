package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaEntry parses an entry such as "user=alice client-id=: key=value". An empty name is the
// default entity, and "key" without a value removes the quota.
func quotaEntry(t *testing.T, text string) kmsg.AlterClientQuotasRequestEntry {
	t.Helper()
	e := kmsg.NewAlterClientQuotasRequestEntry()
	of, ops, _ := strings.Cut(text, ":")
	for _, p := range strings.Fields(of) {
		kind, name, _ := strings.Cut(p, "=")
		part := kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: &name}
		if name == "" {
			part.Name = nil
		} else if name == `""` {
			name = ""
		}
		e.Entity = append(e.Entity, part)
	}
	for _, p := range strings.Fields(ops) {
		key, value, set := strings.Cut(p, "=")
		op := kmsg.AlterClientQuotasRequestEntryOp{Key: key, Remove: !set}
		if set {
			_, err := fmt.Sscan(value, &op.Value)
			require.NoError(t, err)
		}
		e.Ops = append(e.Ops, op)
	}
	return e
}

func partText(kind string, name *string) string {
	if name == nil {
		return kind + "="
	}
	return kind + "=" + *name
}

// alterQuotas returns the answers as "user=alice: NONE" or with the error's message.
func alterQuotas(t *testing.T, c *client, version int16, validate validation, entries ...string) (got []string) {
	t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version, req.ValidateOnly = version, validate == validateOnly
	for _, e := range entries {
		req.Entries = append(req.Entries, quotaEntry(t, e))
	}
	for _, e := range c.ask(req).(*kmsg.AlterClientQuotasResponse).Entries {
		var parts []string
		for _, p := range e.Entity {
			parts = append(parts, partText(p.Type, p.Name))
		}
		line := strings.Join(parts, " ") + ": " + Code(e.ErrorCode).String()
		if e.ErrorMessage != nil {
			line += ": " + *e.ErrorMessage
		}
		got = append(got, line)
	}
	return got
}

type validation bool

const (
	validateOnly validation = true
	forGood      validation = false
)

type strictness bool

const (
	strict   strictness = true
	openEnds strictness = false
)

// describeQuotas filters by "user=alice", "user=" (the default) or "user" (any). It returns
// entities with their quotas, or the error.
func describeQuotas(t *testing.T, c *client, version int16, s strictness, filter ...string) (got []string) {
	t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version, req.Strict = version, bool(s)
	for _, f := range filter {
		kind, name, named := strings.Cut(f, "=")
		p := kmsg.DescribeClientQuotasRequestComponent{EntityType: kind, MatchType: matchAny}
		if named && name == "" {
			p.MatchType = matchDefault
		} else if named {
			p.MatchType, p.Match = matchExact, &name
		}
		req.Components = append(req.Components, p)
	}
	return describedQuotas(c.ask(req).(*kmsg.DescribeClientQuotasResponse))
}

func describedQuotas(resp *kmsg.DescribeClientQuotasResponse) (got []string) {
	if resp.ErrorCode != 0 {
		return []string{Code(resp.ErrorCode).String() + ": " + *resp.ErrorMessage}
	}
	for _, e := range resp.Entries {
		var parts []string
		for _, p := range e.Entity {
			parts = append(parts, partText(p.Type, p.Name))
		}
		line := strings.Join(parts, " ") + ":"
		for _, v := range e.Values {
			line += fmt.Sprint(" ", v.Key, "=", v.Value)
		}
		got = append(got, line)
	}
	return got
}

// A broker of Kafka 4.3 gives the same answers, except for their order.
func TestQuotasAreAlteredAsInKafka(t *testing.T) {
	_, addr := serve(t, Config{})
	c := dial(t, addr)
	const invalid = ": INVALID_REQUEST: "
	for _, tc := range [][2]string{
		{"user=alice: producer_byte_rate=1000", "user=alice: NONE"},
		{"user=: consumer_byte_rate=10.5", "user=" + invalid + "consumer_byte_rate cannot be a fractional value."},
		{"user=alice client-id=app: producer_byte_rate=5 request_percentage=12.5 controller_mutation_rate=0.5", "user=alice client-id=app: NONE"},
		{"client-id=: consumer_byte_rate=10", "client-id=: NONE"},
		{"client-id= user=: consumer_byte_rate=11", "client-id= user=: NONE"},
		{"ip=: connection_creation_rate=10", "ip=: NONE"},
		{"ip=127.0.0.1: connection_creation_rate=10", "ip=127.0.0.1: NONE"},
		{"ip=no.such: connection_creation_rate=10", "ip=no.such" + invalid + "no.such is not a valid IP or resolvable host."},
		{"ip=127.0.0.1: connection_creation_rate=10.5", "ip=127.0.0.1" + invalid + "connection_creation_rate cannot be a fractional value."},
		{"ip=127.0.0.1: connection_creation_rate=1e11", "ip=127.0.0.1" + invalid + "Proposed value for connection_creation_rate is too large for an INT."},
		{"ip=127.0.0.1: producer_byte_rate=1000", "ip=127.0.0.1" + invalid + "Invalid configuration key producer_byte_rate"},
		{"user=x ip=127.0.0.1: producer_byte_rate=1000", "user=x ip=127.0.0.1" + invalid + "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"},
		{": producer_byte_rate=1000", ": INVALID_REQUEST: Invalid empty client quota entity"},
		{"nonsense=x: producer_byte_rate=1000", "nonsense=x" + invalid + "Unhandled client quota entity type: nonsense"},
		{"user=a user=b: producer_byte_rate=1000", "user=b: NONE"},
		{`user="" user=c: request_percentage`, "user=c: NONE"},
		{`user=c user="": request_percentage`, "user=" + invalid + "Empty user not supported"},
		{`user="": producer_byte_rate=1000`, "user=" + invalid + "Empty user not supported"},
		{`ip="": producer_byte_rate=1000`, "ip=" + invalid + "Empty ip not supported"},
		{"user=a: nonsense=5", "user=a" + invalid + "Invalid configuration key nonsense"},
		{"user=a: nonsense", "user=a: NONE"},
		{"user=a: connection_creation_rate=5", "user=a" + invalid + "Invalid configuration key connection_creation_rate"},
		{"user=a: producer_byte_rate=0", "user=a" + invalid + "Quota producer_byte_rate must be greater than 0"},
		{"user=a: producer_byte_rate=-1", "user=a" + invalid + "Quota producer_byte_rate must be greater than 0"},
		{"user=a: producer_byte_rate=NaN", "user=a" + invalid + "Quota producer_byte_rate must be greater than 0"},
		{"user=a: producer_byte_rate=10.0000001", "user=a: NONE"},
		{"user=a: producer_byte_rate=1e30", "user=a" + invalid + "Proposed value for producer_byte_rate is too large for a LONG."},
		{"user=a: request_percentage=+Inf", "user=a: NONE"},
		{"user=a: producer_byte_rate=5 producer_byte_rate=6", "user=a" + invalid + "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"},
		{"user=a: producer_byte_rate=5 nonsense=5", "user=a" + invalid + "Invalid configuration key nonsense"},
		{"user=a:", "user=a: NONE"},
		{"user=a: producer_byte_rate", "user=a: NONE"},
		{"user=never: producer_byte_rate", "user=never: NONE"},
	} {
		require.Equal(t, []string{tc[1]}, alterQuotas(t, c, 1, validateOnly, tc[0]), tc[0])
		require.Equal(t, []string{tc[1]}, alterQuotas(t, c, 0, forGood, tc[0]), tc[0])
	}
	require.Empty(t, alterQuotas(t, c, 1, forGood))
	require.Equal(t, []string{"user=twice" + invalid + "Ignoring duplicate entity ClientQuotaEntity(entries={user=twice})", "user=other: NONE"},
		alterQuotas(t, c, 1, forGood, "user=twice: producer_byte_rate=5", "user=twice: producer_byte_rate=6", "user=other: producer_byte_rate=7"))
	require.Equal(t, []string{
		"client-id= user=: consumer_byte_rate=11", "client-id=: consumer_byte_rate=10", "ip=: connection_creation_rate=10", "ip=127.0.0.1: connection_creation_rate=10",
		"user=a: request_percentage=+Inf", "user=alice: producer_byte_rate=1000",
		"client-id=app user=alice: controller_mutation_rate=0.5 producer_byte_rate=5 request_percentage=12.5",
		"user=b: producer_byte_rate=1000", "user=other: producer_byte_rate=7", "user=twice: producer_byte_rate=5",
	}, describeQuotas(t, c, 1, openEnds))
}

func TestValidatedQuotasAreNotSet(t *testing.T) {
	s, addr := serve(t, Config{})
	c := dial(t, addr)
	require.Equal(t, []string{"user=alice: NONE"}, alterQuotas(t, c, 1, validateOnly, "user=alice: producer_byte_rate=1000"))
	require.Nil(t, s.cluster.ClientQuotas())
	require.Equal(t, []string{"user=alice: NONE"}, alterQuotas(t, c, 1, forGood, "user=alice: producer_byte_rate=1000 consumer_byte_rate=2"))
	require.Equal(t, []string{"user=alice: NONE"}, alterQuotas(t, c, 1, forGood, "user=alice: producer_byte_rate consumer_byte_rate=3"))
	require.Equal(t, []string{"user=alice: consumer_byte_rate=3"}, describeQuotas(t, c, 1, openEnds))
}

func TestFiltersOfQuotasMeanWhatKafkasDo(t *testing.T) {
	_, addr := serve(t, Config{})
	c := dial(t, addr)
	for _, e := range []string{
		"client-id=app user=alice: request_percentage=12.5", "client-id=: consumer_byte_rate=10", "client-id= user=: consumer_byte_rate=11",
		"ip=: connection_creation_rate=10", "ip=127.0.0.1: connection_creation_rate=10", "user=a: request_percentage=2", "user=alice: consumer_byte_rate=7",
	} {
		require.Len(t, alterQuotas(t, c, 1, forGood, e), 1)
	}
	for _, tc := range []struct {
		s      strictness
		filter []string
		want   []string
	}{
		{openEnds, []string{"user=alice"}, []string{"user=alice: consumer_byte_rate=7", "client-id=app user=alice: request_percentage=12.5"}},
		{strict, []string{"user=alice"}, []string{"user=alice: consumer_byte_rate=7"}},
		{openEnds, []string{"user="}, []string{"client-id= user=: consumer_byte_rate=11"}},
		{strict, []string{"user="}, nil},
		{strict, nil, nil},
		{openEnds, []string{"user"}, []string{"client-id= user=: consumer_byte_rate=11", "user=a: request_percentage=2", "user=alice: consumer_byte_rate=7", "client-id=app user=alice: request_percentage=12.5"}},
		{strict, []string{"user"}, []string{"user=a: request_percentage=2", "user=alice: consumer_byte_rate=7"}},
		{strict, []string{"user", "client-id"}, []string{"client-id= user=: consumer_byte_rate=11", "client-id=app user=alice: request_percentage=12.5"}},
		{openEnds, []string{"ip"}, []string{"ip=: connection_creation_rate=10", "ip=127.0.0.1: connection_creation_rate=10"}},
		{strict, []string{"client-id="}, []string{"client-id=: consumer_byte_rate=10"}},
		{openEnds, []string{"user=nobody"}, nil},
		{openEnds, []string{""}, []string{"INVALID_REQUEST: Invalid empty entity type."}},
		{openEnds, []string{"nonsense"}, []string{"UNSUPPORTED_VERSION: Unsupported entity type nonsense"}},
		{openEnds, []string{"user", "user="}, []string{"INVALID_REQUEST: Entity type user cannot appear more than once in the filter."}},
		{openEnds, []string{"user", "ip"}, []string{"INVALID_REQUEST: Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."}},
	} {
		for version := range int16(2) {
			require.Equal(t, tc.want, describeQuotas(t, c, version, tc.s, tc.filter...), "%v %v", tc.s, tc.filter)
		}
	}
	name := "x"
	for want, p := range map[string]kmsg.DescribeClientQuotasRequestComponent{
		"Request specified MATCH_TYPE_EXACT, but set match string to null.":          {EntityType: "user", MatchType: matchExact},
		"Request specified MATCH_TYPE_DEFAULT, but also specified a match string.":   {EntityType: "user", MatchType: matchDefault, Match: &name},
		"Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.": {EntityType: "user", MatchType: matchAny, Match: &name},
		"Unknown match type 3":  {EntityType: "user", MatchType: 3, Match: &name},
		"Unknown match type -1": {EntityType: "user", MatchType: -1, Match: &name},
	} {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Components = append(req.Components, p)
		require.Equal(t, []string{"INVALID_REQUEST: " + want}, describedQuotas(c.ask(req).(*kmsg.DescribeClientQuotasResponse)))
	}
}
