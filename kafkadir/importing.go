package kafkadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/clientmetrics"
	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/scram"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// partitionsDir is where partitions are copied to in a staging directory, before there is a broker.
const partitionsDir = ".partitions"

// whenever makes OpenTransactions list also transactions that were just written to. When a log was
// just opened, all of them look so.
const whenever = -time.Hour

// maxProducerID leaves room for the ids that the new cluster gives out.
const maxProducerID = math.MaxInt64 - 1<<40

// An importing is one call of Import, in these steps:
//
//  1. The partitions are copied and checked. Their producer ids and leader epochs are known then.
//  2. A new cluster is founded, with topics, users and the rest, and closed.
//  3. The partitions become the broker's, beside Kafka's checkpoints, by which logs without a state
//     of ours are read.
//  4. The cluster is opened, as at any start: each partition is recovered and gets its state, and
//     must end where step 1 saw the end.
type importing struct {
	cfg    ImportConfig
	plan   *plan
	to     *staging
	copier copier
	meter  meter
}

func (im *importing) run(ctx context.Context) (*Report, error) {
	r := &Report{
		ClusterID: im.plan.cluster, Broker: im.plan.node, Clean: im.plan.clean, Metadata: im.plan.meta != nil,
		Missing: im.plan.missing, Skipped: map[string]int{},
	}
	if im.plan.meta != nil {
		r.Skipped, r.NextProducerID = im.plan.meta.skipped, im.plan.meta.nextID
	}
	err := im.copyAll(ctx, r)
	if err == nil && (r.NextProducerID < 0 || r.NextProducerID > maxProducerID) { // none that a broker gives out
		err = fmt.Errorf("%w: there is a producer id of %d", ErrDamaged, r.NextProducerID-1)
	}
	if err == nil {
		err = im.found(ctx, r)
	}
	if err == nil {
		err = im.place()
	}
	if err == nil {
		err = im.check(ctx, r)
	}
	r.LeftOut = im.plan.leftOut
	return r, err
}

// copyAll copies the partitions that there are.
func (im *importing) copyAll(ctx context.Context, r *Report) error {
	fsys, dir := im.cfg.FS, filepath.Join(im.to.tmp, partitionsDir)
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var all []*partPlan
	for _, t := range im.plan.topics {
		for i := range t.parts {
			if t.parts[i].from != nil {
				all = append(all, &t.parts[i])
			}
		}
	}
	err := each(len(all), im.cfg.workers, func(i int) error {
		return im.copyPartition(ctx, all[i], filepath.Join(dir, partitionName(all[i].tp)))
	})
	if err != nil {
		return err
	}
	for _, t := range im.plan.topics {
		for i := range t.parts {
			c := &t.parts[i].copied
			r.Bytes, r.Cloned, t.bytes = r.Bytes+c.bytes, r.Cloned+c.cloned, t.bytes+c.records
			r.NextProducerID = max(r.NextProducerID, c.maxID+1)
			if c.cut > 0 {
				r.Cut = append(r.Cut, CutEnd{t.parts[i].tp, c.next, c.cut})
			}
			r.Gaps = append(r.Gaps, c.doubts...)
			if c.epoch > t.parts[i].epoch {
				t.parts[i].epoch = c.epoch
			}
		}
		r.Topics = append(r.Topics, TopicReport{t.name, t.id, len(t.parts), t.bytes, t.retentionOff})
	}
	return nil
}

// offline returns the configuration of a cluster that changes nothing by itself.
func (im *importing) offline() replication.Config {
	return replication.Config{
		Dir: im.to.tmp, FS: im.cfg.FS, ClusterID: im.plan.clusterID(),
		RetentionCheckInterval: never, CompactionInterval: never, LeaderBalanceInterval: never,
	}
}

// clusterID is Kafka's, unless it is none that Kafka itself would draw.
func (p *plan) clusterID() string {
	if _, err := topic.ParseID(p.cluster); err != nil {
		return ""
	}
	return p.cluster
}

// found makes the cluster, with all its metadata.
func (im *importing) found(ctx context.Context, r *Report) error {
	c, err := replication.Open(im.offline())
	if err != nil {
		return err
	}
	r.ClusterID = c.ClusterID()
	var topics []replication.AdoptedTopic
	for _, t := range im.plan.topics {
		epochs := make([]int32, len(t.parts))
		for i := range t.parts {
			epochs[i] = t.parts[i].epoch + 1 // readers notice that another log may have begun (KIP-320)
		}
		cfg := topic.Config{ID: t.id, Partitions: len(t.parts), ReplicationFactor: 1, Properties: t.config}
		topics = append(topics, replication.AdoptedTopic{TopicSpec: replication.TopicSpec{Name: t.name, Config: cfg}, LeaderEpochs: epochs})
	}
	err = c.AdoptTopics(ctx, topics...)
	if err == nil {
		err = c.SkipProducerIDs(ctx, r.NextProducerID)
	}
	if err == nil {
		err = im.restoreAccess(ctx, c, r)
	}
	if err == nil {
		err = im.restoreSettings(ctx, c)
	}
	if err == nil {
		err = im.restoreNamedConfigs(ctx, c)
	}
	return errors.Join(err, c.Close())
}

// restoreSettings restores the settings of all topics, and those of transactions.
func (im *importing) restoreSettings(ctx context.Context, c *replication.Cluster) error {
	defaults := im.plan.defaults()
	var changes []replication.ConfigChange
	for _, k := range slices.Sorted(maps.Keys(defaults)) {
		changes = append(changes, replication.ConfigChange{Key: k, Value: defaults[k]})
	}
	if len(changes) > 0 {
		if err := c.AlterBrokerConfig(ctx, replication.AllBrokers, changes...); err != nil {
			return err
		}
	}
	const newest = 2
	level := int16(newest)
	if m := im.plan.meta; m != nil {
		level = min(m.features["transaction.version"], newest)
	} else if !slices.ContainsFunc(im.plan.topics, func(t *topicPlan) bool { return t.name == txnlog.Topic }) {
		return nil
	}
	if level == 0 {
		return nil
	}
	return c.SetTransactionVersion(ctx, level)
}

// restoreNamedConfigs restores the settings of groups and of client metrics. A group's value counts
// if it is within the bounds of the serving broker.
func (im *importing) restoreNamedConfigs(ctx context.Context, c *replication.Cluster) error {
	if im.plan.meta == nil {
		return nil
	}
	type edit = func(map[string]string) (map[string]string, error)
	restore := func(kind int8, alter func(context.Context, string, edit) error, check func(string, map[string]string) error) error {
		configs := im.plan.meta.configs[kind]
		for _, name := range slices.Sorted(maps.Keys(configs)) {
			if len(configs[name]) == 0 {
				continue
			}
			if err := check(name, configs[name]); err != nil {
				im.plan.leaveOut(fmt.Sprintf("resource %q of type %d", name, kind), err)
				continue
			}
			if err := alter(ctx, name, func(map[string]string) (map[string]string, error) { return configs[name], nil }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := restore(metarecord.ResourceClientMetrics, c.AlterClientMetricsProperties, clientmetrics.Validate); err != nil {
		return err
	}
	return restore(metarecord.ResourceGroup, c.AlterGroupProperties, func(string, map[string]string) error { return nil })
}

// restoreAccess makes the users and access control entries.
func (im *importing) restoreAccess(ctx context.Context, c *replication.Cluster, r *Report) error {
	if im.plan.meta == nil {
		return nil
	}
	byMechanism := map[int8][]replication.ScramChange{} // a user may come once in one change
	for k, u := range im.plan.meta.users {
		cred := replication.ScramCredential{Mechanism: scram.Mechanism(k.mechanism), Salt: u.Salt, StoredKey: u.StoredKey, ServerKey: u.ServerKey, Iterations: int(u.Iterations)}
		byMechanism[k.mechanism] = append(byMechanism[k.mechanism], replication.ScramChange{User: k.user, Credential: cred})
	}
	for _, m := range slices.Sorted(maps.Keys(byMechanism)) {
		changes := byMechanism[m]
		slices.SortFunc(changes, func(a, b replication.ScramChange) int { return strings.Compare(a.User, b.User) })
		refused, err := c.AlterScramCredentials(ctx, changes...)
		if err != nil {
			return err
		}
		for _, user := range slices.Sorted(maps.Keys(refused)) {
			im.plan.leaveOut("user "+user, refused[user])
		}
		r.Users += len(changes) - len(refused)
	}
	if err := im.restoreQuotas(ctx, c, r); err != nil {
		return err
	}
	if err := im.restoreTokens(ctx, c, r); err != nil {
		return err
	}
	return im.restoreACLs(ctx, c, r)
}

// restoreTokens restores the delegation tokens. Expired ones are removed when others are created.
func (im *importing) restoreTokens(ctx context.Context, c *replication.Cluster, r *Report) error {
	for _, id := range slices.Sorted(maps.Keys(im.plan.meta.tokens)) {
		t := im.plan.meta.tokens[id]
		err := c.CreateDelegationToken(ctx, replication.DelegationToken{
			ID: t.TokenID, Owner: t.Owner, Requester: t.Requester, Renewers: t.Renewers,
			Issued: time.UnixMilli(t.IssueTimestamp), Max: time.UnixMilli(t.MaxTimestamp), Expires: time.UnixMilli(t.ExpirationTimestamp),
		})
		switch {
		case errors.Is(err, replication.ErrPolicyViolation):
			im.plan.leaveOut("delegation token "+id, err)
		case err != nil:
			return err
		default:
			r.Tokens++
		}
	}
	return nil
}

// restoreQuotas sets the quotas, as many as one change may have at a time.
func (im *importing) restoreQuotas(ctx context.Context, c *replication.Cluster, r *Report) error {
	const atOnce = 1000
	for names := range slices.Chunk(slices.Sorted(maps.Keys(im.plan.meta.quotas)), atOnce) {
		byEntity := map[replication.QuotaEntity]*replication.QuotaChange{}
		for _, name := range names {
			q := im.plan.meta.quotas[name]
			e, err := clientquota.EntityOf(q)
			if err == nil {
				value := replication.QuotaValue{Key: replication.QuotaKey(q.Key), Value: q.Value}
				var refused map[replication.QuotaEntity]error
				refused, err = c.CheckClientQuotas(replication.QuotaChange{Entity: e, Changes: []replication.QuotaValue{value}})
				if err = cmp.Or(err, refused[e]); err == nil {
					if byEntity[e] == nil {
						byEntity[e] = &replication.QuotaChange{Entity: e}
					}
					byEntity[e].Changes = append(byEntity[e].Changes, value)
					r.Quotas++
					continue
				}
			}
			im.plan.leaveOut("quota "+name, err)
		}
		var changes []replication.QuotaChange
		for _, e := range slices.SortedFunc(maps.Keys(byEntity), replication.QuotaEntity.Compare) {
			changes = append(changes, *byEntity[e])
		}
		if len(changes) == 0 {
			continue
		}
		if _, err := c.AlterClientQuotas(ctx, changes...); err != nil {
			return err
		}
	}
	return nil
}

func (im *importing) restoreACLs(ctx context.Context, c *replication.Cluster, r *Report) error {
	var entries []acl.Entry
	for _, e := range im.plan.meta.acls {
		entry := acl.Entry{
			ResourceType: acl.ResourceType(e.ResourceType), ResourceName: e.ResourceName, PatternType: acl.PatternType(e.PatternType),
			Principal: e.Principal, Host: e.Host, Operation: acl.Operation(e.Operation), Permission: acl.Permission(e.Permission),
		}
		if err := entry.Validate(); err != nil {
			im.plan.leaveOut("access control entry "+entry.String(), err)
			continue
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, acl.Entry.Compare)
	const atOnce = 5000
	for chunk := range slices.Chunk(entries, atOnce) {
		if err := c.CreateACLs(ctx, chunk...); err != nil {
			return err
		}
	}
	r.ACLs = len(entries)
	return nil
}

// place gives the partitions to the broker.
func (im *importing) place() error {
	fsys, root := im.cfg.FS, filepath.Join(im.to.tmp, "broker-1")
	from := filepath.Join(im.to.tmp, partitionsDir)
	starts, points := map[record.TopicPartition]int64{}, map[record.TopicPartition]int64{}
	for name, offsets := range map[string]map[record.TopicPartition]int64{logStartFile: starts, recoveryPointFile: points} {
		path := filepath.Join(root, name)
		text, _, err := readText(fsys, path)
		if err != nil {
			return err
		}
		had, err := parseCheckpoint(path, text)
		if err != nil {
			return err
		}
		maps.Copy(offsets, had)
	}
	for _, t := range im.plan.topics {
		for _, part := range t.parts {
			if part.from == nil {
				continue
			}
			name := partitionName(part.tp)
			if err := fsys.Rename(filepath.Join(from, name), filepath.Join(root, name)); err != nil {
				return err
			}
			if part.found.start > 0 {
				starts[part.tp] = part.found.start
			}
			if part.found.point >= 0 {
				points[part.tp] = part.found.point
			}
		}
	}
	err := fsys.RemoveAll(from)
	for name, offsets := range map[string]map[record.TopicPartition]int64{logStartFile: starts, recoveryPointFile: points} {
		if err == nil {
			err = vfs.WriteFile(fsys, filepath.Join(root, name), formatCheckpoint(offsets))
		}
	}
	if !im.plan.clean { // without both marks, a log without a state counts as left by a killed process
		for _, name := range []string{"strata.closed", cleanShutdownFile} {
			if err == nil {
				err = fsys.Remove(filepath.Join(root, name))
			}
		}
	}
	if err == nil {
		err = fsys.SyncDir(root)
	}
	return err
}

// check opens the cluster, as it will be from now on, and compares where partitions end.
func (im *importing) check(ctx context.Context, r *Report) error {
	c, err := replication.Open(im.offline())
	if err != nil {
		return err
	}
	for _, t := range im.plan.topics {
		for _, part := range t.parts {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil && part.from != nil {
				err = part.compare(c.Status(part.tp.Topic, part.tp.Partition))
			}
		}
	}
	r.OpenTransactions = len(c.OpenTransactions(whenever))
	return errors.Join(err, c.Close())
}

// compare returns an error if a partition differs from its source.
func (part *partPlan) compare(s replication.Status) error {
	end := max(part.copied.next, part.found.start)
	switch {
	case s.Err != nil:
		return fmt.Errorf("%w: partition %s: %w", ErrDamaged, partitionName(part.tp), s.Err)
	case part.copied.swaps: // the files of an unfinished compaction count in place of others
		return nil
	case s.LogEndOffset != end:
		return damaged(part.found.dir, "the log ends at offset %d, its batches at %d", s.LogEndOffset, end)
	}
	return nil
}
