package interop

import (
	"encoding/json"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// A deviation is a difference that is known, and why it is there. Empty fields match everything.
type deviation struct {
	api          kafka.Key
	any          bool // of any API
	path         string
	theirs, ours string
	why          string
}

const (
	flushed  = "what is acknowledged is on the disk: flush.messages is 1, as a broker's setting"
	eligible = "the cluster's min.insync.replicas is written down by Kafka for eligible.leader.replicas.version, which Strata does not have"
	twice    = "what is named twice is answered twice; Kafka tells it once for most APIs, of which some take the first and some the last"
)

// wireDeviations is what Strata answers in another way than Kafka.
var wireDeviations = []deviation{
	{any: true, path: ".Topics[].Configs[flush.messages]", why: flushed},
	{any: true, path: ".Resources[].Configs[flush.messages]", why: flushed},
	{any: true, path: ".Topics[].Configs[min.insync.replicas].Source", theirs: `"3"`, ours: `"5"`, why: eligible},
	{any: true, path: ".Resources[].Configs[min.insync.replicas]", why: eligible},
	{api: kafka.ApiVersions, path: ".ApiKeys", why: "there is no moving between directories, no voters of KRaft, no streams groups"},
	{api: kafka.DescribeACLs, path: "", theirs: "closed", why: "a filter of an unknown type is answered with INVALID_REQUEST; Kafka closes the connection"},
	{api: kafka.DeleteACLs, path: "", theirs: "closed", why: "as above"},
	{api: kafka.CreateACLs, path: "", theirs: "closed", why: "as above"},
	{api: kafka.CreateACLs, path: ".Results[].ErrorCode", theirs: `"-1"`, why: "INVALID_REQUEST, where Kafka has UNKNOWN_SERVER_ERROR"},
	{api: kafka.DescribeConfigs, path: ".Resources[].Configs[", why: "documentation is Strata's own, and keys that are defaults of defaults in Kafka have one as a synonym"},
	{api: kafka.Fetch, path: "", theirs: "closed", why: "Kafka fails in answering with an error, as it does not know the topics' names"},
}

// listed reports whether a difference is one that is known.
func listed(req kmsg.Request, d difference, note func(string)) bool {
	if why := notServed[req.Key()]; why != "" && d.ours == "closed" {
		note(why)
		return true
	}
	for _, l := range wireDeviations {
		if (l.any || int16(l.api) == req.Key()) && strings.HasPrefix(d.path, l.path) && (l.path != "" || d.path == "") &&
			(l.theirs == "" || l.theirs == d.theirs) && (l.ours == "" || l.ours == d.ours) {
			note(kmsg.NameForKey(req.Key()) + d.path + ": " + l.why)
			return true
		}
	}
	if why := open()[kmsg.NameForKey(req.Key())+" "+d.path]; why != "" {
		note(kmsg.NameForKey(req.Key()) + d.path + ": " + why)
		return true
	}
	if strings.Contains(jsonOf(req), `"__share_group_state"`) {
		note("the state of share groups has 50 partitions")
		return true
	}
	if namesTwice(jsonTree(req)) {
		note(kmsg.NameForKey(req.Key()) + ": " + twice)
		return true
	}
	return false
}

// open are the differences in differential.txt, by API and path.
var open = sync.OnceValue(func() map[string]string {
	text, err := os.ReadFile("differential.txt")
	if err != nil {
		panic(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSpace(line), " ", 3); len(fields) == 3 && fields[0] != "#" {
			listed[fields[0]+" "+strings.TrimPrefix(fields[1], "-")] = strings.TrimSpace(fields[2])
		}
	}
	return listed
})

func jsonTree(v any) (tree any) {
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &tree) != nil {
		return nil
	}
	return tree
}

// namesTwice reports whether a list of a request has two elements about the same thing.
func namesTwice(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "TopicID" && k != "UnknownTags" && namesTwice(e) {
				return true
			}
		}
	case []any:
		seen := map[string]bool{}
		for _, e := range v {
			name := jsonText(e)
			if m, ok := e.(map[string]any); ok {
				name = ""
				for _, k := range []string{"Topic", "TopicID", "Partition", "ResourceType", "ResourceName", "Name", "TransactionalID", "ProducerID", "Group", "GroupID", "Entity"} {
					if m[k] != nil && (k != "TopicID" || m["Topic"] == nil) {
						name += k + jsonText(m[k])
					}
				}
			}
			if name != "" && seen[name] || namesTwice(e) {
				return true
			}
			seen[name] = true
		}
	}
	return false
}
