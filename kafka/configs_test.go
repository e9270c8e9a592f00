package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

func askConfigs(t *testing.T, addr string, kind int8, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name, ConfigNames: keys}}
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	resp := ask[*kmsg.DescribeConfigsResponse](t, addr, 4, req)
	require.Len(t, resp.Resources, 1)
	return resp.Resources[0]
}

func askAlter(t *testing.T, addr string, kind int8, name string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) Code {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name, Configs: changes}}
	req.ValidateOnly = true
	dry := ask[*kmsg.IncrementalAlterConfigsResponse](t, addr, 1, req).Resources[0].ErrorCode
	req.ValidateOnly = false
	real := ask[*kmsg.IncrementalAlterConfigsResponse](t, addr, 1, req).Resources[0].ErrorCode
	require.Equal(t, real, dry, "validate_only answers as if done")
	return Code(real)
}

func change(key string, op int8, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOp(op), Value: &value}
}

func TestConfigurationsAreShownWithSourcesSynonymsAndTypes(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{Properties: map[string]string{"retention.ms": "5"}}))
	require.Zero(t, askAlter(t, addr, resourceBroker, "", change("log.retention.ms", 0, "6"), change("message.max.bytes", 0, "7000")))
	require.Zero(t, askAlter(t, addr, resourceBroker, "1", change("log.retention.ms", 0, "8")))
	got := askConfigs(t, addr, resourceTopic, "a", "retention.ms", "max.message.bytes", "cleanup.policy", "no.such")
	require.Len(t, got.Configs, 3, "unknown keys are left out")
	policy, size, retention := got.Configs[0], got.Configs[1], got.Configs[2]
	require.EqualValues(t, sourceDefault, policy.Source)
	require.EqualValues(t, 7, policy.ConfigType)
	require.NotEmpty(t, *policy.Documentation)
	require.EqualValues(t, sourceBrokerDefault, size.Source)
	require.Equal(t, "7000", *size.Value)
	require.False(t, size.ReadOnly)
	require.EqualValues(t, sourceTopic, retention.Source)
	require.EqualValues(t, 5, retention.ConfigType)
	var sources []int8
	var values []string
	for _, l := range retention.ConfigSynonyms {
		sources, values = append(sources, int8(l.Source)), append(values, l.Name+"="+*l.Value)
	}
	require.Equal(t, []int8{1, 2, 3, 5}, sources)
	require.Equal(t, []string{"retention.ms=5", "log.retention.ms=8", "log.retention.ms=6", "log.retention.hours=168"}, values)

	require.Len(t, askConfigs(t, addr, resourceBroker, "").Configs, 2, "what was set on all brokers")
	broker := askConfigs(t, addr, resourceBroker, "1", "num.partitions", "log.retention.ms")
	require.True(t, broker.Configs[1].ReadOnly)
	require.EqualValues(t, sourceBroker, broker.Configs[0].Source)
	require.Zero(t, askAlter(t, addr, resourceBroker, "1", change("log.retention.ms", 1, "")))
	require.EqualValues(t, sourceBrokerDefault, askConfigs(t, addr, resourceBroker, "1", "log.retention.ms").Configs[0].Source)
}

// Some settings have several names among those of brokers. The last name has the default, as Kafka
// 4.3 shows it.
func TestDefaultsAreThoseOfTheNamesThatHaveThem(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	text := func(kind int8, name, key string) string {
		got := askConfigs(t, addr, kind, name, key)
		require.Len(t, got.Configs, 1, key)
		c := got.Configs[0]
		text := "null"
		if c.Value != nil {
			text = *c.Value
		}
		for _, s := range c.ConfigSynonyms {
			text += fmt.Sprintf(" %s=%s:%d", s.Name, *s.Value, s.Source)
		}
		require.Equal(t, len(c.ConfigSynonyms) == 0 || c.ConfigSynonyms[0].Source == sourceDefaultOf, c.Source == sourceDefaultOf)
		return text
	}
	for key, want := range map[string]string{
		"log.retention.ms": "null", "log.retention.hours": "168 log.retention.hours=168:5", "log.roll.ms": "null", "log.roll.hours": "168 log.roll.hours=168:5",
		"log.roll.jitter.ms": "null", "log.roll.jitter.hours": "0 log.roll.jitter.hours=0:5", "log.flush.interval.ms": "null", "log.retention.bytes": "-1 log.retention.bytes=-1:5",
	} {
		require.Equal(t, want, text(resourceBroker, "1", key), key)
	}
	for key, want := range map[string]string{
		"retention.ms": "604800000", "segment.ms": "604800000", "segment.jitter.ms": "0", "flush.ms": "9223372036854775807", "retention.bytes": "-1 log.retention.bytes=-1:5",
	} {
		require.Equal(t, want, text(resourceTopic, "a", key), key)
	}
	require.Zero(t, askAlter(t, addr, resourceBroker, "", change("log.retention.ms", 0, "5000000"), change("log.roll.ms", 0, "600000")))
	require.Equal(t, "5000000 log.retention.ms=5000000:3 log.retention.hours=168:5", text(resourceBroker, "1", "log.retention.ms"))
	require.Equal(t, "168 log.retention.hours=168:5", text(resourceBroker, "1", "log.retention.hours"))
	require.Equal(t, "5000000 log.retention.ms=5000000:3 log.retention.hours=168:5", text(resourceTopic, "a", "retention.ms"))
	require.Equal(t, "600000 log.roll.ms=600000:3 log.roll.hours=168:5", text(resourceTopic, "a", "segment.ms"))
}

func TestDescribeConfigsRefusesAsKafkaDoes(t *testing.T) {
	_, addr := serve(t, Config{})
	for _, c := range []struct {
		kind int8
		name string
		want Code
	}{
		{resourceTopic, "no", UnknownTopicOrPartition}, {resourceTopic, "../x", InvalidTopicException}, {resourceTopic, "", InvalidTopicException},
		{resourceBroker, "2", InvalidRequest}, {resourceBroker, "x", InvalidRequest}, {resourceBroker, "99999999999999999999", InvalidRequest},
		{resourceBrokerLogger, "1", 0}, {resourceBrokerLogger, "", InvalidRequest}, {resourceGroup, "", InvalidRequest}, {resourceGroup, "g", 0},
		{resourceClientMetrics, "", InvalidRequest}, {7, "x", InvalidRequest}, {0, "x", InvalidRequest}, {-1, "x", InvalidRequest},
	} {
		require.Equal(t, c.want, Code(askConfigs(t, addr, c.kind, c.name).ErrorCode), "%d %q", c.kind, c.name)
	}
}

// Of a broker's keys only the defaults of topics and the throttles change while it runs. Kafka
// accepts and stores every unknown key.
func TestIncrementalAlterConfigsRefusesAsKafkaDoes(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	null := change("retention.ms", 0, "")
	null.Value = nil
	type changes = []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for what, c := range map[string]struct {
		kind    int8
		name    string
		changes changes
		want    Code
	}{
		"set":                {resourceTopic, "a", changes{change("retention.ms", 0, "8")}, 0},
		"key twice":          {resourceTopic, "a", changes{change("retention.ms", 0, "8"), change("retention.ms", 0, "9")}, InvalidRequest},
		"unknown key":        {resourceTopic, "a", changes{change("no.such", 0, "8")}, InvalidConfig},
		"delete unknown key": {resourceTopic, "a", changes{change("no.such", 1, "")}, 0},
		"delete unset":       {resourceTopic, "a", changes{change("segment.ms", 1, "")}, 0},
		"bad value":          {resourceTopic, "a", changes{change("retention.ms", 0, "x")}, InvalidConfig},
		"null":               {resourceTopic, "a", changes{null}, InvalidRequest},
		"append to a number": {resourceTopic, "a", changes{change("retention.ms", 2, "1")}, InvalidConfig},
		"append present":     {resourceTopic, "a", changes{change("cleanup.policy", 2, "delete")}, 0},
		"unknown operation":  {resourceTopic, "a", changes{change("retention.ms", 7, "1")}, UnknownServerError},
		"negative operation": {resourceTopic, "a", changes{change("retention.ms", -1, "1")}, UnknownServerError},
		"unknown topic":      {resourceTopic, "no", changes{change("retention.ms", 0, "1")}, UnknownTopicOrPartition},
		"bad topic":          {resourceTopic, "../", changes{change("retention.ms", 0, "1")}, InvalidTopicException},
		"all topics":         {resourceTopic, "", changes{change("retention.ms", 0, "1")}, InvalidRequest},
		"read-only":          {resourceBroker, "1", changes{change("num.partitions", 0, "1")}, InvalidRequest},
		"read-only, all":     {resourceBroker, "", changes{change("node.id", 0, "1")}, InvalidRequest},
		"broker bad value":   {resourceBroker, "1", changes{change("log.retention.ms", 0, "x")}, InvalidRequest},
		"broker number":      {resourceBroker, "1", changes{change("log.retention.ms", 2, "1")}, InvalidConfig},
		"broker rate":        {resourceBroker, "1", changes{change("leader.replication.throttled.rate", 3, "1")}, InvalidConfig},
		"broker list":        {resourceBroker, "1", changes{change("log.cleanup.policy", 2, "compact")}, 0},
		"read-only number":   {resourceBroker, "1", changes{change("num.partitions", 2, "1")}, InvalidConfig},
		"append to unknown":  {resourceBroker, "1", changes{change("no.such", 2, "1")}, InvalidConfig},
		"broker unknown key": {resourceBroker, "1", changes{change("no.such", 0, "1")}, InvalidConfig},
		"another broker":     {resourceBroker, "2", changes{change("log.retention.ms", 0, "1")}, InvalidRequest},
		"logger":             {resourceBrokerLogger, "1", changes{change("root", 0, "DEBUG")}, InvalidConfig},
		"group":              {resourceGroup, "g", changes{change("consumer.session.timeout.ms", 0, "50000")}, 0},
		"group without name": {resourceGroup, "", changes{change("a", 0, "1")}, InvalidRequest},
		"unknown type":       {7, "x", changes{change("a", 0, "1")}, InvalidRequest},
	} {
		require.Equal(t, c.want, askAlter(t, addr, c.kind, c.name, c.changes...), what)
	}
}

// A request that names a key twice is INVALID_REQUEST. Kafka 4.3 never answers it.
func TestAlterConfigsReplacesWholeConfigurations(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{Properties: map[string]string{"retention.ms": "5"}}))
	alter := func(kind int8, name string, kv ...string) Code {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.AlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name}
		for i := 0; i < len(kv); i += 2 {
			r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: kv[i], Value: &kv[i+1]})
		}
		req.Resources = append(req.Resources, r)
		return Code(ask[*kmsg.AlterConfigsResponse](t, addr, 2, req).Resources[0].ErrorCode)
	}
	require.Zero(t, alter(resourceTopic, "a", "segment.ms", "7"))
	info, err := s.cluster.Topic(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"segment.ms": "7"}, info.Settings.Explicit())
	require.Zero(t, alter(resourceBroker, "", "log.retention.ms", "7", "message.max.bytes", "8"))
	require.Zero(t, alter(resourceBroker, "", "log.retention.ms", "9"))
	require.Equal(t, map[string]string{"log.retention.ms": "9"}, s.cluster.BrokerConfig(-1))
	require.Equal(t, InvalidRequest, alter(resourceTopic, "a", "segment.ms", "7", "segment.ms", "8"))
	require.Equal(t, InvalidConfig, alter(resourceTopic, "a", "no.such", "7"))
	require.Equal(t, UnknownTopicOrPartition, alter(resourceTopic, "no", "segment.ms", "7"))
	require.Equal(t, InvalidRequest, alter(resourceTopic, ""))
	require.Equal(t, InvalidRequest, alter(7, "x", "a", "b"))
}

func TestConfigResourcesAreListed(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{}))
	req := kmsg.NewPtrListConfigResourcesRequest()
	require.Len(t, ask[*kmsg.ListConfigResourcesResponse](t, addr, 1, req).ConfigResources, 3, "a topic, a broker and its loggers")
	require.Empty(t, ask[*kmsg.ListConfigResourcesResponse](t, addr, 0, req).ConfigResources)
	req.ResourceTypes = []int8{resourceTopic}
	require.Equal(t, "a", ask[*kmsg.ListConfigResourcesResponse](t, addr, 1, req).ConfigResources[0].Name)
	req.ResourceTypes = []int8{7}
	require.Equal(t, UnsupportedVersion, Code(ask[*kmsg.ListConfigResourcesResponse](t, addr, 1, req).ErrorCode))
}

// TestGroupsHaveConfigurations sets, describes, lists and refuses as Kafka 4.3 does. See
// interop.TestAnswersToTheNewerProtocolAreKafkas.
func TestGroupsHaveConfigurations(t *testing.T) {
	const heartbeat, session = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
	_, addr := serve(t, Config{})
	listed := func() (names []string) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = []int8{resourceGroup}
		for _, r := range ask[*kmsg.ListConfigResourcesResponse](t, addr, 1, req).ConfigResources {
			names = append(names, r.Name)
		}
		return names
	}
	require.Empty(t, listed())
	require.Zero(t, askAlter(t, addr, resourceGroup, "g", change(heartbeat, 0, " 6000 ")))
	require.Zero(t, askAlter(t, addr, resourceGroup, "a b!", change(session, 0, "50000")))
	require.Equal(t, []string{"a b!", "g"}, listed())
	got := askConfigs(t, addr, resourceGroup, "g").Configs
	require.Len(t, got, 17, "those that are gone by")
	require.Equal(t, heartbeat, got[1].Name)
	require.Equal(t, "6000", *got[1].Value)
	require.EqualValues(t, sourceGroup, got[1].Source)
	require.EqualValues(t, 3, got[1].ConfigType)
	require.False(t, got[1].ReadOnly)
	require.NotEmpty(t, *got[1].Documentation)
	require.Len(t, got[1].ConfigSynonyms, 2)
	require.Equal(t, "group."+heartbeat, got[1].ConfigSynonyms[1].Name)
	require.Equal(t, "5000", *got[1].ConfigSynonyms[1].Value)
	require.Equal(t, session, got[2].Name)
	require.Equal(t, "45000", *got[2].Value)
	require.EqualValues(t, sourceDefault, got[2].Source)

	type changes = []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for what, c := range map[string]struct {
		changes changes
		want    Code
	}{
		"empty value":    {changes{change(heartbeat, 0, "")}, InvalidConfig},
		"no number":      {changes{change(heartbeat, 0, "x")}, InvalidConfig},
		"zero":           {changes{change(heartbeat, 0, "0")}, InvalidConfig},
		"below":          {changes{change(heartbeat, 0, "4999")}, InvalidConfig},
		"above":          {changes{change(heartbeat, 0, "15001")}, InvalidConfig},
		"session below":  {changes{change(session, 0, "44999")}, InvalidConfig},
		"session above":  {changes{change(session, 0, "60001")}, InvalidConfig},
		"session large":  {changes{change(session, 0, "99999999999")}, InvalidConfig},
		"assignment":     {changes{change("consumer.assignment.interval.ms", 0, "15001")}, InvalidConfig},
		"append":         {changes{change(heartbeat, 2, "1")}, InvalidConfig},
		"unknown":        {changes{change("no.such", 0, "1")}, InvalidConfig},
		"copies":         {changes{change("streams.num.standby.replicas", 0, "3")}, InvalidConfig},
		"good and bad":   {changes{change(session, 0, "50000"), change(heartbeat, 0, "x")}, InvalidConfig},
		"twice":          {changes{change(heartbeat, 0, "6000"), change(heartbeat, 0, "6000")}, InvalidRequest},
		"delete unknown": {changes{change("no.such", 1, "")}, 0},
		"nothing":        {nil, 0},
	} {
		require.Equal(t, c.want, askAlter(t, addr, resourceGroup, "g", c.changes...), what)
	}
	require.EqualValues(t, sourceDefault, askConfigs(t, addr, resourceGroup, "g").Configs[2].Source, "nothing of what was refused")
	require.Zero(t, askAlter(t, addr, resourceGroup, "a b!", change(session, 1, "")))
	require.Equal(t, []string{"g"}, listed())

	old := func(kv ...string) Code {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.AlterConfigsRequestResource{ResourceType: resourceGroup, ResourceName: "g"}
		for i := 0; i < len(kv); i += 2 {
			r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: kv[i], Value: &kv[i+1]})
		}
		req.Resources = append(req.Resources, r)
		return Code(ask[*kmsg.AlterConfigsResponse](t, addr, 2, req).Resources[0].ErrorCode)
	}
	require.Zero(t, old(session, "50000"))
	got = askConfigs(t, addr, resourceGroup, "g").Configs
	require.Equal(t, "5000", *got[1].Value, "replaced as a whole")
	require.Equal(t, "50000", *got[2].Value)
	require.Equal(t, InvalidConfig, old(session, "x"))
	require.Zero(t, old())
	require.Empty(t, listed())
}
