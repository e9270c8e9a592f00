package kafka

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// alterOld replaces the configuration of a client-metrics resource.
func alterOld(t *testing.T, addr, name string, kv ...string) kmsg.AlterConfigsResponseResource {
	t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.AlterConfigsRequestResource{ResourceType: resourceClientMetrics, ResourceName: name}
	for i := 0; i < len(kv); i += 2 {
		r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: kv[i], Value: &kv[i+1]})
	}
	req.Resources = append(req.Resources, r)
	return ask[*kmsg.AlterConfigsResponse](t, addr, 2, req).Resources[0]
}

func listClientMetrics(t *testing.T, addr string, version int16) (names []string) {
	t.Helper()
	req := kmsg.NewPtrListConfigResourcesRequest()
	if version > 0 {
		req.ResourceTypes = []int8{resourceClientMetrics}
	}
	for _, r := range ask[*kmsg.ListConfigResourcesResponse](t, addr, version, req).ConfigResources {
		require.EqualValues(t, resourceClientMetrics, r.Type)
		names = append(names, r.Name)
	}
	return names
}

// Resources are altered, described and listed as Kafka 4.3 does it. Package clientmetrics tests
// which values are refused; the tools of interop print the same with both servers.
func TestClientMetricsAreConfigured(t *testing.T) {
	_, addr := serve(t, Config{})
	shown := func(name string) (values []string) {
		got := askConfigs(t, addr, resourceClientMetrics, name)
		require.Zero(t, got.ErrorCode)
		for i, c := range got.Configs {
			require.Equal(t, []string{"interval.ms", "match", "metrics"}[i], c.Name)
			require.EqualValues(t, []int{3, 7, 7}[i], c.ConfigType)
			require.False(t, c.ReadOnly)
			require.NotEmpty(t, *c.Documentation)
			if c.Source != sourceDefaultOf {
				require.EqualValues(t, sourceClientMetrics, c.Source)
				require.Len(t, c.ConfigSynonyms, 1)
				require.Equal(t, *c.Value, *c.ConfigSynonyms[0].Value)
				values = append(values, c.Name+"="+*c.Value)
				continue
			}
			require.Empty(t, c.ConfigSynonyms)
			require.Equal(t, []string{"300000", "", ""}[i], *c.Value)
		}
		return values
	}
	require.Empty(t, shown("absent"))
	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "slow", change("interval.ms", 0, " 30000 "), change("match", 0, "client_id = web.* ,client_id=a"), change("metrics", 0, "a, b,a")))
	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "fast b/c", change("interval.ms", 0, "+100")))
	require.Equal(t, []string{"interval.ms=30000", "match=client_id = web.*,client_id=a", "metrics=a,b"}, shown("slow"))
	require.Equal(t, []string{"interval.ms=100"}, shown("fast b/c"))
	require.Equal(t, []string{"fast b/c", "slow"}, listClientMetrics(t, addr, 0))
	require.Equal(t, []string{"fast b/c", "slow"}, listClientMetrics(t, addr, 1))

	type changes = []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for what, c := range map[string]struct {
		name    string
		changes changes
		want    Code
	}{
		"append to a list":     {"slow", changes{change("metrics", 2, "x")}, InvalidConfig},
		"subtract from a list": {"slow", changes{change("metrics", 3, "a")}, InvalidConfig},
		"append, no name":      {"", changes{change("metrics", 2, "x")}, InvalidConfig},
		"no name":              {"", changes{change("metrics", 0, "x")}, InvalidRequest},
		"no name, no change":   {"", nil, InvalidRequest},
		"unknown key":          {"slow", changes{change("nope", 0, "x")}, InvalidRequest},
		"delete an unknown":    {"slow", changes{change("nope", 1, "")}, 0},
		"good and bad":         {"slow", changes{change("metrics", 0, "z"), change("interval.ms", 0, "1")}, InvalidRequest},
		"no number":            {"slow", changes{change("interval.ms", 0, "x")}, InvalidConfig},
		"pattern":              {"slow", changes{change("match", 0, "client_id=(")}, InvalidConfig},
		"unknown operation":    {"slow", changes{change("metrics", 7, "x")}, UnknownServerError},
	} {
		require.Equal(t, c.want, askAlter(t, addr, resourceClientMetrics, c.name, c.changes...), what)
	}
	require.Len(t, shown("slow"), 3, "nothing of what was refused")
	require.Contains(t, shown("slow"), "metrics=a,b")

	refused := alterOld(t, addr, "slow", "interval.ms", "1")
	require.Equal(t, InvalidRequest, Code(refused.ErrorCode))
	require.Equal(t, "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)", *refused.ErrorMessage)
	require.Zero(t, alterOld(t, addr, "slow", "metrics", "*").ErrorCode)
	require.Equal(t, []string{"metrics=*"}, shown("slow"), "replaced as a whole")
	require.Zero(t, alterOld(t, addr, "slow").ErrorCode)
	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "fast b/c", change("interval.ms", 1, "")))
	require.Empty(t, listClientMetrics(t, addr, 1), "on nothing is anything set")
}

func TestClientMetricsAreNotSetByAskingWhetherTheyCould(t *testing.T) {
	_, addr := serve(t, Config{})
	inc := kmsg.NewPtrIncrementalAlterConfigsRequest()
	inc.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: resourceClientMetrics, ResourceName: "slow", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{change("interval.ms", 0, "1000")},
	}}
	inc.ValidateOnly = true
	require.Zero(t, ask[*kmsg.IncrementalAlterConfigsResponse](t, addr, 1, inc).Resources[0].ErrorCode)
	require.Empty(t, listClientMetrics(t, addr, 1))
}

// sourceDefaultOf is sourceDefault in the type of kmsg.
const sourceDefaultOf = kmsg.ConfigSource(sourceDefault)

// Client metrics need rights to the cluster. Rights to topics and groups of the same name do not
// count.
func TestClientMetricsAreForThoseWhoMayConfigureTheCluster(t *testing.T) {
	everywhere := func(o acl.Operation) []acl.Entry {
		return []acl.Entry{rights(acl.Topic, acl.Wildcard, o), rights(acl.Group, acl.Wildcard, o), rights(acl.Cluster, acl.ClusterName, acl.Describe)}
	}
	set := change("interval.ms", 0, "1000")
	_, addr := authorized(t, append(everywhere(acl.AlterConfigs), everywhere(acl.DescribeConfigs)[:2]...)...)
	require.Equal(t, ClusterAuthorizationFailed, askAlter(t, addr, resourceClientMetrics, "slow", set))
	require.Equal(t, ClusterAuthorizationFailed, Code(alterOld(t, addr, "slow", "interval.ms", "1000").ErrorCode))
	require.Equal(t, ClusterAuthorizationFailed, Code(askConfigs(t, addr, resourceClientMetrics, "slow").ErrorCode))
	req := kmsg.NewPtrListConfigResourcesRequest()
	for version := range int16(2) {
		list := ask[*kmsg.ListConfigResourcesResponse](t, addr, version, req)
		require.Equal(t, ClusterAuthorizationFailed, Code(list.ErrorCode))
		require.Empty(t, list.ConfigResources)
	}

	s, addr := authorized(t, rights(acl.Cluster, acl.ClusterName, acl.AlterConfigs))
	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "slow", set))
	require.Zero(t, alterOld(t, addr, "slow", "interval.ms", "2000").ErrorCode)
	resources, _ := s.cluster.ClientMetricsProperties()
	require.Equal(t, map[string]map[string]string{"slow": {"interval.ms": "2000"}}, resources)

	_, addr = authorized(t, rights(acl.Cluster, acl.ClusterName, acl.DescribeConfigs))
	require.Zero(t, askConfigs(t, addr, resourceClientMetrics, "slow").ErrorCode)
	require.Empty(t, listClientMetrics(t, addr, 1))
	require.Equal(t, ClusterAuthorizationFailed, askAlter(t, addr, resourceClientMetrics, "slow", set))
}

// The subscription of a client has the metrics configured for the attributes of its connection. A
// change counts at once.
func TestClientsAreAskedForWhatIsConfigured(t *testing.T) {
	pushes := make(chan TelemetryPush, 1)
	_, addr := serve(t, Config{Telemetry: Telemetry{Receive: func(p TelemetryPush) { pushes <- p }}})
	c := dial(t, addr)
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, "probe", "1.2"
	require.Zero(t, c.ask(versions).(*kmsg.ApiVersionsResponse).ErrorCode)
	get := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	told := func() *kmsg.GetTelemetrySubscriptionsResponse {
		resp := c.ask(get).(*kmsg.GetTelemetrySubscriptionsResponse)
		require.Zero(t, resp.ErrorCode)
		get.ClientInstanceID = resp.ClientInstanceID
		return resp
	}
	everything := told()
	require.Equal(t, []string{""}, everything.RequestedMetrics, "nothing is configured")
	throttled := c.ask(get).(*kmsg.GetTelemetrySubscriptionsResponse)
	require.Equal(t, ThrottlingQuotaExceeded, Code(throttled.ErrorCode))
	require.Zero(t, throttled.ClientInstanceID)

	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "other", change("metrics", 0, "other"), change("match", 0, "client_id=web.*")))
	require.Empty(t, told().RequestedMetrics, "no resource is about it")
	_, port, err := net.SplitHostPort(c.nc.LocalAddr().String())
	require.NoError(t, err)
	match := "client_id=te..,client_software_name=probe,client_software_version=1\\..,client_source_address=127.*,client_source_port=" + port
	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "this", change("metrics", 0, "a,b"), change("interval.ms", 0, "1000"), change("match", 0, match)))
	sub := told()
	require.Equal(t, []string{"a", "b"}, sub.RequestedMetrics)
	require.EqualValues(t, 1000, sub.PushIntervalMillis)
	require.Equal(t, everything.ClientInstanceID, sub.ClientInstanceID)

	push := kmsg.NewPtrPushTelemetryRequest()
	push.ClientInstanceID, push.SubscriptionID, push.Metrics = sub.ClientInstanceID, sub.SubscriptionID, []byte("metrics")
	require.Zero(t, c.ask(push).(*kmsg.PushTelemetryResponse).ErrorCode)
	require.Equal(t, "metrics", string((<-pushes).Payload))
	require.Equal(t, ThrottlingQuotaExceeded, Code(c.ask(push).(*kmsg.PushTelemetryResponse).ErrorCode))
	require.Zero(t, askAlter(t, addr, resourceClientMetrics, "this", change("metrics", 0, "c")))
	require.Equal(t, UnknownSubscriptionID, Code(c.ask(push).(*kmsg.PushTelemetryResponse).ErrorCode))
	require.Equal(t, []string{"c"}, told().RequestedMetrics)
	for _, name := range []string{"this", "other"} {
		require.Zero(t, alterOld(t, addr, name).ErrorCode)
	}
	require.Equal(t, []string{""}, told().RequestedMetrics)
	require.Empty(t, pushes)
}
