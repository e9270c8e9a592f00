package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// Error messages of requests about access control entries if authorization is disabled. Kafka:
// AclApis.
const (
	noAuthorizer         = "No Authorizer is configured."
	noAuthorizerOnBroker = "No Authorizer is configured on the broker"
)

// describeACLs serves DescribeAcls: the entries that match a filter, by resource. Version 1 adds
// pattern types; filters of version 0 match literal patterns. Key 29, versions 1 to 3.
func (c *call) describeACLs(req *kmsg.DescribeACLsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	if c.may == nil {
		resp.ErrorCode, resp.ErrorMessage = int16(SecurityDisabled), kmsg.StringPtr(noAuthorizerOnBroker)
		return resp
	}
	f := acl.Filter{
		ResourceType: acl.ResourceType(req.ResourceType), ResourceName: req.ResourceName, PatternType: acl.PatternType(req.ResourcePatternType),
		Principal: req.Principal, Host: req.Host, Operation: acl.Operation(req.Operation), Permission: acl.Permission(req.PermissionType),
	}
	if c.version == 0 {
		f.PatternType = acl.Literal
	}
	if err := f.Validate(); err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	resp.ErrorMessage = kmsg.StringPtr("") // as in Kafka, which does not set it
	for _, e := range c.may.Set().Matching(f) {
		if n := len(resp.Resources); n == 0 || !sameResource(&resp.Resources[n-1], e) {
			r := kmsg.NewDescribeACLsResponseResource()
			r.ResourceType, r.ResourceName, r.ResourcePatternType = kmsg.ACLResourceType(e.ResourceType), e.ResourceName, kmsg.ACLResourcePatternType(e.PatternType)
			resp.Resources = append(resp.Resources, r)
		}
		a := kmsg.NewDescribeACLsResponseResourceACL()
		a.Principal, a.Host, a.Operation, a.PermissionType = e.Principal, e.Host, kmsg.ACLOperation(e.Operation), kmsg.ACLPermissionType(e.Permission)
		r := &resp.Resources[len(resp.Resources)-1]
		r.ACLs = append(r.ACLs, a)
	}
	return resp
}

func sameResource(r *kmsg.DescribeACLsResponseResource, e acl.Entry) bool {
	return acl.ResourceType(r.ResourceType) == e.ResourceType && r.ResourceName == e.ResourceName && acl.PatternType(r.ResourcePatternType) == e.PatternType
}

// createACLs serves CreateAcls. Each entry has its own error, and valid entries are created in one
// change. Entries of version 0 have literal names. Key 30, versions 1 to 3.
func (c *call) createACLs(req *kmsg.CreateACLsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	resp.Results = make([]kmsg.CreateACLsResponseResult, len(req.Creations))
	var valid []acl.Entry
	var places []int
	for i, r := range req.Creations {
		e := acl.Entry{
			ResourceType: acl.ResourceType(r.ResourceType), ResourceName: r.ResourceName, PatternType: acl.PatternType(r.ResourcePatternType),
			Principal: r.Principal, Host: r.Host, Operation: acl.Operation(r.Operation), Permission: acl.Permission(r.PermissionType),
		}
		if c.version == 0 {
			e.PatternType = acl.Literal
		}
		err := e.Validate()
		if c.may == nil {
			err = refuse(SecurityDisabled, noAuthorizer)
		}
		if resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = c.errorCode(err), errorMessage(err); err == nil {
			valid, places = append(valid, e), append(places, i)
		}
	}
	if len(valid) == 0 {
		return resp
	}
	if err := c.s.cluster.CreateACLs(c.ctx, valid...); err != nil {
		for _, i := range places {
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = c.errorCode(err), errorMessage(err)
		}
	}
	return resp
}

// deleteACLs serves DeleteAcls. Each filter has its own error, and the entries that match valid
// filters are deleted in one change. Key 31, versions 1 to 3.
func (c *call) deleteACLs(req *kmsg.DeleteACLsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	resp.Results = make([]kmsg.DeleteACLsResponseResult, len(req.Filters))
	var valid []acl.Filter
	var places []int
	for i, r := range req.Filters {
		f := acl.Filter{
			ResourceType: acl.ResourceType(r.ResourceType), ResourceName: r.ResourceName, PatternType: acl.PatternType(r.ResourcePatternType),
			Principal: r.Principal, Host: r.Host, Operation: acl.Operation(r.Operation), Permission: acl.Permission(r.PermissionType),
		}
		if c.version == 0 {
			f.PatternType = acl.Literal
		}
		err := f.Validate()
		if c.may == nil {
			err = refuse(SecurityDisabled, noAuthorizer)
		}
		if resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = c.errorCode(err), errorMessage(err); err == nil {
			valid, places = append(valid, f), append(places, i)
		}
	}
	if len(valid) == 0 {
		return resp
	}
	removed, err := c.s.cluster.DeleteACLs(c.ctx, valid...)
	for n, i := range places {
		if err != nil {
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = c.errorCode(err), errorMessage(err)
			continue
		}
		for _, e := range removed[n] {
			m := kmsg.NewDeleteACLsResponseResultMatchingACL()
			m.ResourceType, m.ResourceName, m.ResourcePatternType = kmsg.ACLResourceType(e.ResourceType), e.ResourceName, kmsg.ACLResourcePatternType(e.PatternType)
			m.Principal, m.Host, m.Operation, m.PermissionType = e.Principal, e.Host, kmsg.ACLOperation(e.Operation), kmsg.ACLPermissionType(e.Permission)
			resp.Results[i].MatchingACLs = append(resp.Results[i].MatchingACLs, m)
		}
	}
	return resp
}
