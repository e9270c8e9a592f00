package group

import "github.com/stratalog/strata/group/assignor"

// Names that moved to package assignor, until their users have.
type (
	// Deprecated: use assignor.Assignor.
	Assignor = assignor.Assignor
	// Deprecated: use assignor.Protocol.
	Protocol = assignor.Protocol
)

// Deprecated: use package assignor.
var (
	CooperativeSticky = assignor.CooperativeSticky
	Sticky            = assignor.Sticky
	Range             = assignor.Range
	RoundRobin        = assignor.RoundRobin
	AllCooperative    = assignor.AllCooperative
	SubscriptionFor   = assignor.SubscriptionFor
	AssignAll         = assignor.AssignAll
	ParseAssignment   = assignor.ParseAssignment
	ParseSubscription = assignor.ParseSubscription
)
