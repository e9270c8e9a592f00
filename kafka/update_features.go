package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// updateFeatures refuses to change feature levels: there are none to change. What a server does is
// fixed by its version; a directory is upgraded when a newer one opens it.
func (c *call) updateFeatures(req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	err := refuse(InvalidUpdateVersion, "Feature levels cannot be changed: this server has no finalized features.")
	if len(req.FeatureUpdates) > 0 {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
	}
	return resp
}
