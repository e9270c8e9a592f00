package kafka

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka/internal/transport"
)

var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// software is the name and version of a client's software. Each is cut to maxSoftware bytes,
// because the client may not be authenticated yet.
type software struct{ name, version string }

// maxSoftware is the longest name or version that is kept, in bytes. Kafka keeps all bytes.
const maxSoftware = 256

func newSoftware(name, version string) *software {
	return &software{strings.Clone(name[:min(len(name), maxSoftware)]), strings.Clone(version[:min(len(version), maxSoftware)])}
}

// advertise lists the served APIs. As in Kafka, Produce is advertised from version 0 on although 0
// to 2 are rejected: otherwise old versions of librdkafka do not compress.
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

// apiVersions returns the served APIs and versions. Key 18, versions 0 to 4.
func (c *call) apiVersions(req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if c.version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = int16(InvalidRequest)
		return resp
	}
	c.conn.software.Store(newSoftware(req.ClientSoftwareName, req.ClientSoftwareVersion))
	resp.ApiKeys = slices.Clone(c.s.advertised) // an Interceptor may edit it
	if a := c.conn.sasl; a != nil {
		a.session.Versions()
	}
	c.tellFeatures(resp)
	return resp
}

// tellFeatures adds group.version, share.version, streams.version and transaction.version
// (KIP-584). The finalized level of each is listed if it is above 0. From version 4 on the
// response also has the supported levels; older clients cannot read a minimum level of 0. The
// finalized levels have the epoch of the metadata that they were read with.
func (c *call) tellFeatures(resp *kmsg.ApiVersionsResponse) {
	if c.version < 3 {
		return
	}
	most := c.s.featureLevel(transactionVersionMost)
	if c.version >= 4 {
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{
			{Name: groupVersion, MinVersion: 0, MaxVersion: c.s.groupLevel()}, {Name: shareVersion, MinVersion: 0, MaxVersion: c.s.shareLevel()},
			{Name: streamsVersion, MinVersion: 0, MaxVersion: c.s.streamsLevel()}, {Name: transactionVersion, MinVersion: 0, MaxVersion: most},
		}
	}
	resp.FinalizedFeaturesEpoch = c.s.cluster.MetadataVersion()
	finalized := func(name string, level int16) {
		if level > 0 {
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: name, MaxVersionLevel: level, MinVersionLevel: level})
		}
	}
	finalized(groupVersion, c.s.groupLevel())
	finalized(shareVersion, c.s.shareLevel())
	finalized(streamsVersion, c.s.streamsLevel())
	finalized(transactionVersion, c.s.featureLevel(c.s.cluster.TransactionCoordinator().Version()))
}

// groupLevel returns the level of group.version: 1 if the server serves the requests of the
// consumer group protocol (KIP-848), else 0.
func (s *Server) groupLevel() int16 {
	if s.apis[int16(ConsumerGroupHeartbeat)] == nil {
		return 0
	}
	return groupVersionMost
}

// shareLevel returns the level of share.version: 1 if the server serves the requests of share
// groups, else 0.
func (s *Server) shareLevel() int16 {
	if s.apis[int16(ShareFetch)] == nil {
		return 0
	}
	return shareVersionMost
}

// streamsLevel returns the level of streams.version: 1 if the server serves the requests of
// streams groups, else 0.
func (s *Server) streamsLevel() int16 {
	if s.apis[int16(StreamsGroupHeartbeat)] == nil {
		return 0
	}
	return streamsVersionMost
}

// featureLevel returns a level of transaction.version, lowered to 1 if VersionCaps removes a
// version that clients of level 2 need.
func (s *Server) featureLevel(level int16) int16 {
	for key, version := range map[Key]int16{Produce: 12, EndTxn: 5, TxnOffsetCommit: 5} {
		if a := s.apis[int16(key)]; a == nil || a.max < version {
			return min(level, 1)
		}
	}
	return level
}

// futureApiVersions answers an ApiVersions request of an unknown version, newer or below 0, in
// version 0, with only the served versions of ApiVersions.
func (c *conn) futureApiVersions(r *transport.Request) {
	a := c.s.apis[r.Key()]
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(UnsupportedVersion)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(a.key), MinVersion: a.min, MaxVersion: a.max}}
	r.Answer(transport.Answer{Pieces: framed(r.Correlation(), resp, 0)}, transport.Caller)
}
