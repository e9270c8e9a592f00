package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group/assignor"
)

// offsetsTopic is the internal topic that holds committed offsets and groups. Package kmsg has the
// formats of its records.
const offsetsTopic = "__consumer_offsets"

// groupKey is the version of the keys of the records of groups.
const groupKey = 2

// locate shows where a group is stored: in the partition of __consumer_offsets that follows from
// its name. The leader of that partition is the group's coordinator, and the group is a record
// there.
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
	md, err := cluster.Metadata(ctx, offsetsTopic)
	if err != nil {
		return err
	}
	all := md.Topics[offsetsTopic].Partitions
	p, err := cluster.Backend().OffsetsPartition(ctx, g.group, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nGroup billing: hash of the name modulo %d is partition %d of %s; broker %d leads it and is the coordinator.\n",
		len(all), p, offsetsTopic, all[p].Leader)
	fmt.Fprintln(out, "Its records there, one when it was created, one each time it became stable:")
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: offsetsTopic, Partitions: []int32{p}}) {
		if err != nil {
			return err
		}
		if binary.BigEndian.Uint16(r.Key) != groupKey || r.Value == nil {
			continue
		}
		var key kmsg.GroupMetadataKey
		var v kmsg.GroupMetadataValue
		if err := errors.Join(key.ReadFrom(r.Key), v.ReadFrom(r.Value)); err != nil {
			return err
		}
		if key.Group != g.group {
			continue
		}
		if len(v.Members) == 0 {
			fmt.Fprintf(out, "  offset %d: generation %d, no members\n", r.Offset, v.Generation)
			continue
		}
		fmt.Fprintf(out, "  offset %d: generation %d, protocol %q, %d member(s), leader %s\n", r.Offset, v.Generation, *v.Protocol, len(v.Members), names[*v.Leader])
	}
	_, err = fmt.Fprintf(out, "Now: generation %d, %v, protocol %q, leader %s\n", info.Generation, info.State, info.Protocol, names[info.Leader])
	return err
}
