package kafka

import (
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// advertise lists what is served. Produce is advertised from version 0 on though 0 to 2 are
// refused, as Kafka does: old librdkafka takes a broker without them for one that cannot compress.
func advertise(apis map[int16]*api) []kmsg.ApiVersionsResponseApiKey {
	var keys []kmsg.ApiVersionsResponseApiKey
	for _, key := range slices.Sorted(maps.Keys(apis)) {
		k := kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: apis[key].min, MaxVersion: apis[key].max}
		if Key(key) == Produce {
			k.MinVersion = 0
		}
		keys = append(keys, k)
	}
	return keys
}

// apiVersions tells the client what is served.
func (c *call) apiVersions(req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if c.version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = int16(InvalidRequest)
		return resp
	}
	resp.ApiKeys = c.s.advertised
	return resp
}

// futureApiVersions answers a client whose ApiVersions is newer than ours: in version 0, with
// nothing but our range of it. The header must be whole, the body is not looked at.
func (c *conn) futureApiVersions(f *frame, a *api) error {
	if _, _, err := f.header(true); err != nil {
		c.s.budget.give(f.charged)
		return err
	}
	if err := c.awaitPending(0); err != nil {
		c.s.budget.give(f.charged)
		return err
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(UnsupportedVersion)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(a.key), MinVersion: a.min, MaxVersion: a.max}}
	r := &reply{frame: f, out: framed(f.correlation(), resp)}
	c.enqueue(r)
	c.complete(r, callerWrites)
	return nil
}
