package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) clusterCmd() *cobra.Command {
	var tg target
	c := &cobra.Command{Use: "cluster", Short: "Show brokers, controller, features, and the partitions and bytes of each broker", Args: cobra.NoArgs,
		Long: "cluster prints the id of the cluster, its brokers and its finalized features. For each broker it prints the address, the rack, how many\n" +
			"partitions the broker leads and stores, and their size in bytes. It fails if the disk of a broker is full or broken: use it as a health\n" +
			"check.",
		Example: "  strata cluster -b localhost:9092\n  strata cluster --dir data --json"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		ctx, cancel := tg.bounded(ctx)
		defer cancel()
		return a.cluster(ctx, c)
	})
	tg.flags(c)
	return c
}

func (a *app) cluster(ctx context.Context, c *conn) error {
	m, err := c.admin.Metadata(ctx)
	if err != nil {
		return err
	}
	dirs, err := c.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return err
	}
	if err := a.emit(clusterLine{"cluster", m.Cluster, m.Controller, len(m.Brokers), len(m.Topics)}); err != nil {
		return err
	}
	lines := map[int32]*brokerLine{}
	var failed []error
	for _, b := range m.Brokers {
		l := &brokerLine{Type: "broker", Broker: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), Controller: b.NodeID == m.Controller}
		if b.Rack != nil {
			l.Rack = *b.Rack
		}
		dirs[b.NodeID].Each(func(d kadm.DescribedLogDir) {
			l.Bytes += d.Size()
			if d.Err != nil {
				l.Error = d.Err.Error()
				failed = append(failed, fmt.Errorf("broker %d: its disk fails or is full: %w", b.NodeID, d.Err))
			}
		})
		lines[b.NodeID] = l
	}
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if l := lines[p.Leader]; l != nil {
				l.Leads++
			}
			for _, id := range p.Replicas {
				if l := lines[id]; l != nil {
					l.Replicas++
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		if err := a.emit(*lines[id]); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, a.features(ctx, c))...)
}

// features prints the finalized features.
func (a *app) features(ctx context.Context, c *conn) error {
	client, err := c.newClient()
	if err != nil {
		return err
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "strata", strings.Trim(version(), "()")
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	slices.SortFunc(resp.FinalizedFeatures, func(a, b kmsg.ApiVersionsResponseFinalizedFeature) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range resp.FinalizedFeatures {
		if err := a.emit(featureLine{"feature", f.Name, f.MaxVersionLevel}); err != nil {
			return err
		}
	}
	return nil
}

type clusterLine struct {
	Type       string `json:"type"`
	ID         string `json:"id"`
	Controller int32  `json:"controller"`
	Brokers    int    `json:"brokers"`
	Topics     int    `json:"topics"` // including internal topics
}

func (l clusterLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "cluster %s: %d brokers, %d topics\n", l.ID, l.Brokers, l.Topics)
}

type brokerLine struct {
	Type       string `json:"type"`
	Broker     int32  `json:"broker"`
	Address    string `json:"address"`
	Rack       string `json:"rack,omitempty"`
	Controller bool   `json:"controller"`
	Leads      int    `json:"leads"`    // partitions
	Replicas   int    `json:"replicas"` // partitions
	Bytes      int64  `json:"bytes"`
	Error      string `json:"error,omitempty"` // of its disk
}

func (l brokerLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  broker %d at %s: leads %d of %d partitions, %d bytes", l.Broker, l.Address, l.Leads, l.Replicas, l.Bytes)
	if l.Rack != "" {
		fmt.Fprintf(w, ", rack %s", l.Rack)
	}
	if l.Controller {
		fmt.Fprint(w, ", controller")
	}
	fmt.Fprintln(w)
}

type featureLine struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Level int16  `json:"level"`
}

func (l featureLine) writeText(w io.Writer) { fmt.Fprintf(w, "  feature %s: %d\n", l.Name, l.Level) }
