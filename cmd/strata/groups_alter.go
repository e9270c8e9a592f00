package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) groupsAlter() *cobra.Command {
	var tg target
	var set, unset []string
	c := &cobra.Command{Use: "alter GROUP...", Short: "Change settings of consumer groups", Args: cobra.MinimumNArgs(1),
		Long: "alter changes settings of groups, or resets them to the broker's: consumer.heartbeat.interval.ms, consumer.session.timeout.ms and\n" +
			"consumer.assignment.interval.ms. They apply to members of the consumer protocol (KIP-848), from their next heartbeat on. The group need\n" +
			"not exist yet.",
		Example: "  strata groups alter billing --set consumer.heartbeat.interval.ms=10000 -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		changes, err := configChanges(set, unset)
		if err != nil {
			return err
		}
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		for _, name := range names {
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, name
			for _, ch := range changes {
				kv := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				kv.Name, kv.Op, kv.Value = ch.Name, kmsg.IncrementalAlterConfigOp(ch.Op), ch.Value
				r.Configs = append(r.Configs, kv)
			}
			req.Resources = append(req.Resources, r)
		}
		got, err := c.request(ctx, &tg, req)
		if err != nil {
			return err
		}
		for _, r := range got.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				message := ""
				if r.ErrorMessage != nil {
					message = *r.ErrorMessage
				}
				return withMessage(r.ResourceName, err, message)
			}
			if err := a.emit(doneLine{"altered", r.ResourceName}); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	c.Flags().StringArrayVar(&set, "set", nil, "a setting of the group, key=value; may be repeated")
	c.Flags().StringArrayVar(&unset, "unset", nil, "a setting to reset to the broker's value; may be repeated")
	return c
}
