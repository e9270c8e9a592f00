package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The advertised features (KIP-584), with their highest levels.
const (
	groupVersion           = "group.version"
	groupVersionMost       = 1
	shareVersion           = "share.version"
	shareVersionMost       = 1
	streamsVersion         = "streams.version"
	streamsVersionMost     = 1
	transactionVersion     = "transaction.version"
	transactionVersionMost = 2
)

// Kinds of updates. Kafka: FeatureUpdate.UpgradeType.
const (
	featureUpgrade         = 1
	featureSafeDowngrade   = 2
	featureUnsafeDowngrade = 3
)

// updateFeatures serves UpdateFeatures. It validates a request as Kafka does, but rejects every
// change of a level. The level of transaction.version is set when a cluster is opened. Those of
// group.version, share.version and streams.version depend on the served APIs. From version 1 on an
// update has a type, and may only validate. From 2 on the response has no results of single
// features. Key 57, versions 0 to 2.
func (c *call) updateFeatures(req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	for _, u := range req.FeatureUpdates {
		kind := u.UpgradeType
		if c.version == 0 {
			if kind = featureUpgrade; u.AllowDowngrade {
				kind = featureSafeDowngrade
			}
		}
		now, most := int16(-1), int16(-1)
		switch u.Feature {
		case transactionVersion:
			now, most = c.s.cluster.TransactionCoordinator().Version(), transactionVersionMost
		case groupVersion:
			now, most = c.s.groupLevel(), c.s.groupLevel()
		case shareVersion:
			now, most = c.s.shareLevel(), c.s.shareLevel()
		case streamsVersion:
			now, most = c.s.streamsLevel(), c.s.streamsLevel()
		}
		if text := checkUpdate(u.Feature, u.MaxVersionLevel, kind, levels{now, most, c.s.cluster.Controller()}); text != "" {
			resp.ErrorCode, resp.ErrorMessage = int16(InvalidUpdateVersion), kmsg.StringPtr("The update failed for all features since the following feature had an error: "+text)
			return resp
		}
	}
	for _, u := range req.FeatureUpdates {
		if c.version < 2 {
			r := kmsg.NewUpdateFeaturesResponseResult()
			r.Feature = u.Feature
			resp.Results = append(resp.Results, r)
		}
	}
	return resp
}

// levels are the current and the highest level of a feature, below 0 if it does not exist, and the
// id of the controller.
type levels struct {
	now, most  int16
	controller int32
}

// checkUpdate returns the reason for which a feature cannot be set to a level; empty if it has
// that level.
func checkUpdate(feature string, level int16, kind int8, of levels) string {
	switch {
	case kind < featureUpgrade || kind > featureUnsafeDowngrade:
		return fmt.Sprintf("Invalid update version %d for feature %s. The controller does not support the given upgrade type.", level, feature)
	case level < 0:
		return fmt.Sprintf("Invalid update version %d for feature %s. A feature version cannot be less than 0.", level, feature)
	case of.most < 0 && level == 0:
		return fmt.Sprintf("Invalid update version %d for feature %s. Feature %s not found.", level, feature, feature)
	case of.most < 0:
		return fmt.Sprintf("Invalid update version %d for feature %s. Local controller %d does not support this feature.", level, feature, of.controller)
	case level > of.most:
		return fmt.Sprintf("Invalid update version %d for feature %s. Local controller %d only supports versions 0-%d", level, feature, of.controller, of.most)
	case level < of.now && kind == featureUpgrade:
		return fmt.Sprintf("Invalid update version %d for feature %s. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.", level, feature)
	case level > of.now && kind != featureUpgrade:
		return fmt.Sprintf("Invalid update version %d for feature %s. Can't downgrade to a newer version.", level, feature)
	case level != of.now:
		return fmt.Sprintf("Invalid update version %d for feature %s. Its level is set when the cluster is opened.", level, feature)
	}
	return ""
}
