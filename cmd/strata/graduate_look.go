package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// A clusterSeen has the parts of a cluster that a move keeps.
type clusterSeen struct {
	id      string
	topics  map[string]topicSeen
	offsets map[comparedPartition][2]int64         // start and end
	groups  map[string]map[comparedPartition]int64 // committed offsets
	listed  map[string]bool                        // groups, also without committed offsets
	access  map[string]map[string]string           // by name of the part, then by user or other entity
	unseen  map[string]map[string]bool             // names of topics and groups that could not be read, by part
	reasons map[string]string                      // why not, by part
}

type topicSeen struct {
	id         string
	partitions int
	factor     string // replicas of each partition: "3", or "2 to 3"
	internal   bool
	configs    map[string]string // not defaults
}

type comparedPartition struct {
	topic     string
	partition int32
}

func (p comparedPartition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

// The parts of a cluster that a principal may be unable to read.
const (
	unseenTopics   = "topics"
	unseenSettings = "settings of topics"
	unseenGroups   = "groups"
)

// accessParts are the parts with users and their rights.
var accessParts = []struct {
	name string
	what string // one of it
	look func(ctx context.Context, tg *target, c *conn) (map[string]string, error)
	need string // the right to read it
}{
	{"users", "credential", lookAtUsers, "no right to describe the cluster"},
	{"access control entries", "access control entry", lookAtACLs, "no right to describe the cluster"},
	{"client quotas", "client quota", lookAtQuotas, "no right to describe configurations of the cluster"},
}

// lag returns the lag of all groups together.
func (s *clusterSeen) lag() (lag int64) {
	for _, g := range s.groups {
		for p, at := range g {
			lag += max(s.offsets[p][1]-at, 0)
		}
	}
	return lag
}

// leaveOut notes that a part could not be read. name is a topic or group, or "".
func (s *clusterSeen) leaveOut(part, name, reason string) {
	if s.unseen[part] == nil {
		s.unseen[part] = map[string]bool{}
	}
	if s.reasons[part] = reason; name != "" {
		s.unseen[part][name] = true
	}
}

// unseenLines returns a line for each part that could not be read.
func (s *clusterSeen) unseenLines() (lines []notComparedLine) {
	for _, part := range slices.Sorted(maps.Keys(s.unseen)) {
		lines = append(lines, notComparedLine{"notCompared", part, slices.Sorted(maps.Keys(s.unseen[part])), s.reasons[part]})
	}
	return lines
}

// lookAtCluster reads a cluster. It requests the topics and groups of was by name: brokers leave
// topics and groups out of their lists that the principal may not describe. was is nil for the
// cluster that moves.
func lookAtCluster(ctx context.Context, tg *target, c *conn, was *clusterSeen) (*clusterSeen, error) {
	m, err := describeAll(ctx, tg, c)
	if err != nil {
		return nil, err
	}
	s := &clusterSeen{
		m.Cluster, map[string]topicSeen{}, map[comparedPartition][2]int64{}, map[string]map[comparedPartition]int64{}, map[string]bool{},
		map[string]map[string]string{}, map[string]map[string]bool{}, map[string]string{},
	}
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	if was != nil {
		if err := s.findHidden(ctx, c.client, m.Topics, was); err != nil {
			return nil, err
		}
	}
	if names := m.Topics.Names(); len(names) > 0 {
		if err := s.lookAtTopics(ctx, c.asker, m.Topics, names); err != nil {
			return nil, err
		}
	}
	if err := s.lookAtGroups(ctx, c.admin, was); err != nil {
		return nil, err
	}
	for _, part := range accessParts {
		switch s.access[part.name], err = part.look(ctx, tg, c); {
		case err == nil:
		case errors.Is(err, kerr.ClusterAuthorizationFailed):
			s.leaveOut(part.name, "", part.need)
		case ctx.Err() != nil:
			return nil, err
		default:
			s.leaveOut(part.name, "", err.Error())
		}
	}
	return s, nil
}

// describeAll returns the metadata of a cluster. The error names a broker that does not run.
func describeAll(ctx context.Context, tg *target, c *conn) (m kadm.Metadata, err error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	if m, err = c.admin.Metadata(ctx); err != nil {
		return m, err
	}
	for _, b := range m.Brokers {
		if _, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, c.client.Broker(int(b.NodeID))); err != nil {
			return m, fmt.Errorf("broker %d at %s:%d does not answer: %w", b.NodeID, b.Host, b.Port, err)
		}
	}
	running := m.Brokers.NodeIDs()
	for _, t := range m.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if p.Leader < 0 {
				down := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(running, id) })
				return m, fmt.Errorf("%s-%d has no leader: of its replicas on brokers %s, those on %s do not run: %w",
					t.Topic, p.Partition, brokerList(p.Replicas), brokerList(down), kerr.LeaderNotAvailable)
			}
		}
	}
	return m, nil
}

// findHidden leaves out the topics of was that the list of all topics lacks because the principal
// may not describe them.
func (s *clusterSeen) findHidden(ctx context.Context, client *kgo.Client, topics kadm.TopicDetails, was *clusterSeen) error {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range slices.Sorted(maps.Keys(was.topics)) {
		if _, there := topics[name]; !there {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, t)
		}
	}
	if len(req.Topics) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, client) // not by kadm, which returns only the first rejection
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if t.Topic != nil && errors.Is(kerr.ErrorForCode(t.ErrorCode), kerr.TopicAuthorizationFailed) {
			s.leaveOut(unseenTopics, *t.Topic, "no right to describe them")
		}
	}
	return nil
}

func (s *clusterSeen) lookAtTopics(ctx context.Context, ask asker, topics kadm.TopicDetails, names []string) error {
	configs, err := s.lookAtSettings(ctx, ask.client, names)
	if err != nil {
		return err
	}
	starts, err := ask.admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return err
	}
	ends, err := ask.admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if t.Err != nil {
			return fmt.Errorf("%s: %w", t.Topic, t.Err)
		}
		s.topics[t.Topic] = topicSeen{uuid(t.ID), len(t.Partitions), factorOf(t), t.IsInternal, configs[t.Topic]}
		for p := range t.Partitions {
			start, _ := starts.Lookup(t.Topic, p)
			end, _ := ends.Lookup(t.Topic, p)
			if err := errors.Join(start.Err, end.Err); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p, err)
			}
			s.offsets[comparedPartition{t.Topic, p}] = [2]int64{start.Offset, end.Offset}
		}
	}
	return nil
}

// lookAtSettings returns the settings of topics that are not defaults.
func (s *clusterSeen) lookAtSettings(ctx context.Context, client *kgo.Client, names []string) (map[string]map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, client) // not by kadm, which returns only the first rejection
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, r := range resp.Resources {
		switch err := kerr.ErrorForCode(r.ErrorCode); {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			s.leaveOut(unseenSettings, r.ResourceName, "no right to describe configurations of the topics")
		case err != nil:
			return nil, fmt.Errorf("%s: %w", r.ResourceName, err)
		}
		set := map[string]string{}
		for _, k := range r.Configs {
			if k.Source == kmsg.ConfigSourceDynamicTopicConfig && k.Value != nil {
				set[k.Name] = *k.Value
			}
		}
		all[r.ResourceName] = set
	}
	return all, nil
}

// factorOf returns the number of replicas of a topic's partitions.
func factorOf(t kadm.TopicDetail) string {
	var all []int
	for _, p := range t.Partitions {
		all = append(all, len(p.Replicas))
	}
	if slices.Sort(all); len(all) == 0 {
		return "none"
	}
	least, most := all[0], all[len(all)-1]
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// lookAtGroups reads the committed offsets of the groups of the cluster and of was.
func (s *clusterSeen) lookAtGroups(ctx context.Context, admin *kadm.Client, was *clusterSeen) error {
	groups, err := admin.ListGroups(ctx)
	if err != nil && !errors.As(err, new(*kadm.AuthError)) {
		return err
	}
	for _, g := range groups {
		if g.ProtocolType != "share" {
			s.listed[g.Group] = true
		}
	}
	asked := maps.Clone(s.listed)
	if was != nil {
		for id := range was.groups {
			asked[id] = true
		}
	}
	if len(asked) == 0 {
		return nil
	}
	for id, r := range admin.FetchManyOffsets(ctx, slices.Sorted(maps.Keys(asked))...) {
		if errors.Is(r.Err, kerr.GroupAuthorizationFailed) {
			s.leaveOut(unseenGroups, id, "no right to describe them")
			continue
		}
		if r.Err != nil {
			return fmt.Errorf("group %s: %w", id, r.Err)
		}
		committed := map[comparedPartition]int64{}
		for _, o := range r.Fetched.Sorted() {
			if o.Err != nil {
				return fmt.Errorf("group %s, %s-%d: %w", id, o.Topic, o.Partition, o.Err)
			}
			if o.At >= 0 {
				committed[comparedPartition{o.Topic, o.Partition}] = o.At
			}
		}
		if len(committed) > 0 {
			s.groups[id] = committed
		}
	}
	return nil
}

// lookAtUsers returns the SCRAM mechanisms and iterations of each user. No request returns keys.
func lookAtUsers(ctx context.Context, _ *target, c *conn) (map[string]string, error) {
	users, err := c.admin.DescribeUserSCRAMs(ctx)
	if auth, ok := errors.AsType[*kadm.AuthError](err); ok {
		err = auth.Err
	}
	seen := map[string]string{}
	for _, u := range users {
		var all []string
		for _, cred := range u.CredInfos {
			all = append(all, fmt.Sprintf("%s with %d iterations", cred.Mechanism, cred.Iterations))
		}
		slices.Sort(all)
		seen["user "+u.User] = strings.Join(all, ", ")
	}
	return seen, err
}

// noAuthorizer is the only access control entry of a cluster that ignores them.
const noAuthorizer = "the cluster has no authorizer"

// lookAtACLs returns each access control entry.
func lookAtACLs(ctx context.Context, tg *target, c *conn) (map[string]string, error) {
	entries, err := listACLs(ctx, tg, c, acl.Everything())
	seen := map[string]string{}
	if errors.Is(err, kerr.SecurityDisabled) {
		return map[string]string{noAuthorizer: noAuthorizer}, nil
	}
	for _, e := range entries {
		var b strings.Builder
		lineOf("acl", e).writeText(&b)
		seen[strings.TrimSpace(b.String())] = "present"
	}
	return seen, err
}

// lookAtQuotas returns the quotas of each entity.
func lookAtQuotas(ctx context.Context, tg *target, c *conn) (map[string]string, error) {
	lines, err := listQuotas(ctx, c, tg, false, nil, nil)
	seen := map[string]string{}
	for _, l := range lines {
		seen[entityText(l.Entity)] = l.values()
	}
	return seen, err
}
