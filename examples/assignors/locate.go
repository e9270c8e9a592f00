package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/offsets"
)

// locate shows where a group is kept: in a partition of __consumer_offsets that its name decides.
// The broker that leads the partition is the group's coordinator, and the group is a record there.
func locate(ctx context.Context, cluster *strata.Cluster, out io.Writer) (err error) {
	g := &members{cluster: cluster, group: "billing", byName: map[string]*member{}}
	defer func() { err = errors.Join(err, g.leaveAll()) }()
	for _, name := range []string{"ann", "bob"} {
		if err := g.join(name, assignor.CooperativeSticky()); err != nil {
			return err
		}
	}
	info, err := g.wait(ctx, 2)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, m := range info.Members {
		names[m.ID] = m.ClientID
	}
	md, err := cluster.Metadata(ctx, offsets.Topic)
	if err != nil {
		return err
	}
	all := md.Topics[offsets.Topic].Partitions
	p := offsets.PartitionFor(g.group, int32(len(all)))
	fmt.Fprintf(out, "\nGroup billing: hash of the name modulo %d is partition %d of %s; broker %d leads it and is the coordinator.\n",
		len(all), p, offsets.Topic, all[p].Leader)
	fmt.Fprintln(out, "Its records there, one when it came into being, one each time that it became stable:")
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: offsets.Topic, Partitions: []int32{p}}) {
		if err != nil {
			return err
		}
		key, known, err := offsets.ParseKey(r.Key)
		if err != nil {
			return err
		}
		if !known || key.Type != offsets.KeyGroup || key.Group != g.group || r.Value == nil {
			continue
		}
		v, err := offsets.ParseGroupValue(r.Value)
		if err != nil {
			return err
		}
		if len(v.Members) == 0 {
			fmt.Fprintf(out, "  offset %d: generation %d, no members\n", r.Offset, v.Generation)
			continue
		}
		fmt.Fprintf(out, "  offset %d: generation %d, protocol %q, %d member(s), leader %s\n", r.Offset, v.Generation, v.Protocol, len(v.Members), names[v.Leader])
	}
	_, err = fmt.Fprintf(out, "Now: generation %d, %v, protocol %q, leader %s\n", info.Generation, info.State, info.Protocol, names[info.Leader])
	return err
}
