package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refusedQuotas answers each entry of an AlterClientQuotas with an error.
func refusedQuotas(req *kmsg.AlterClientQuotasRequest, code Code, text *string) (entries []kmsg.AlterClientQuotasResponseEntry) {
	for _, e := range req.Entries {
		re := kmsg.NewAlterClientQuotasResponseEntry()
		re.ErrorCode, re.ErrorMessage = int16(code), text
		for _, of := range e.Entity {
			re.Entity = append(re.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: of.Type, Name: of.Name})
		}
		entries = append(entries, re)
	}
	return entries
}

// describeClientQuotas serves DescribeClientQuotas: there are no quotas yet, so none is found
// (tools ask for them before anything else).
func (c *call) describeClientQuotas(req *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	return resp
}
