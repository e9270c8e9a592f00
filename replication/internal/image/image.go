package image

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// An Image is the cluster's metadata as of one offset of the controller's log: the result of
// applying all records of the log up to there. Apply is the only function that changes it, live and
// at recovery alike. It is not safe for concurrent use.
type Image struct {
	Version    int64 // of the metadata: offset after the last record applied
	Topics     map[string]*Topic
	ByID       map[topic.ID]*Topic
	collisions map[string]string // names by topic.CollisionKey
	// Removed has the names of all topics that were ever removed, by id. Their directories may be
	// deleted.
	Removed          map[topic.ID]string
	Partitions       int // of all topics
	NextProducerID   int64
	producerIDBroker int32 // the broker that got the last of them
	// BrokerConfigs has the dynamic configuration of brokers, by their keys; "" means all brokers.
	// It is replaced, never written to.
	BrokerConfigs map[string]map[string]string

	Members  map[int32]Member // the brokers, by id. Replaced, never written to
	features map[string]int16 // levels, by name. Replaced, never written to

	groups        namedConfigs
	clientMetrics namedConfigs

	// nil if there were never any. Replaced by the first change after a publish
	users     *Users
	ownsUsers bool // users was copied since the last publish

	// nil if there are none. Replaced by the first change after a publish
	acls     *ACLs
	ownsACLs bool // acls was copied since the last publish

	// nil if there are none. Replaced by the first change after a publish
	quotas     *clientquota.Set
	ownsQuotas bool // quotas was copied since the last publish

	// nil if there are none. Replaced by the first change after a publish
	tokens     *Tokens
	ownsTokens bool // tokens was copied since the last publish

	owned map[topic.ID]bool // topics copied since the last publish, which readers do not see yet
}

// A Topic is the metadata of one topic. It is immutable once published: a change makes a new one.
type Topic struct {
	Name       string
	ID         topic.ID
	Config     map[string]string // explicitly set keys
	Partitions []Partition
}

// New returns the image of an empty log.
func New() *Image {
	return &Image{
		Topics:        map[string]*Topic{},
		ByID:          map[topic.ID]*Topic{},
		collisions:    map[string]string{},
		Removed:       map[topic.ID]string{},
		BrokerConfigs: map[string]map[string]string{},
		Members:       map[int32]Member{},
		features:      map[string]int16{},
		owned:         map[topic.ID]bool{},
	}
}

// Apply applies one record. An error means that the record contradicts the earlier ones; the image
// is unchanged then.
func (m *Image) Apply(rec metarecord.Record) error {
	switch rec := rec.(type) {
	case *metarecord.Topic:
		return m.applyTopic(rec)
	case *metarecord.RemoveTopic:
		return m.applyRemoveTopic(rec)
	case *metarecord.Partition:
		return m.applyPartition(rec)
	case *metarecord.PartitionChange:
		return m.applyPartitionChange(rec)
	case *metarecord.Config:
		return m.applyConfig(rec)
	case *metarecord.RegisterBroker:
		return m.applyRegisterBroker(rec)
	case *metarecord.UnregisterBroker:
		return m.applyUnregisterBroker(rec)
	case *metarecord.BrokerChange:
		return m.applyBrokerChange(rec)
	case *metarecord.FeatureLevel:
		return m.applyFeatureLevel(rec)
	case *metarecord.UserScramCredential:
		return m.applyUser(rec)
	case *metarecord.RemoveUserScramCredential:
		return m.applyRemoveUser(rec)
	case *metarecord.AccessControlEntry:
		return m.applyAccess(rec)
	case *metarecord.RemoveAccessControlEntry:
		return m.applyRemoveAccess(rec)
	case *metarecord.ClientQuota:
		return m.applyQuota(rec)
	case *metarecord.DelegationToken:
		return m.applyToken(rec)
	case *metarecord.RemoveDelegationToken:
		return m.applyRemoveToken(rec)
	case *metarecord.ProducerIDs:
		if rec.Next < m.NextProducerID {
			return fmt.Errorf("producer ids go back from %d to %d", m.NextProducerID, rec.Next)
		}
		m.NextProducerID, m.producerIDBroker = rec.Next, rec.BrokerID
	case *metarecord.NoOp:
		if rec.Snapshot {
			*m = *New() // the records of the state follow
		}
	default:
		return fmt.Errorf("%w: %T", ErrLaterRecord, rec)
	}
	return nil
}

func (m *Image) applyTopic(rec *metarecord.Topic) error {
	if err := topic.ValidateName(rec.Name); err != nil {
		return err
	}
	if m.Topics[rec.Name] != nil || m.ByID[rec.ID] != nil {
		return fmt.Errorf("topic %s (%v) exists already", rec.Name, topic.ID(rec.ID))
	}
	t := &Topic{Name: rec.Name, ID: rec.ID, Config: map[string]string{}}
	m.owned[t.ID] = true
	m.collisions[topic.CollisionKey(t.Name)] = t.Name
	m.put(t)
	return nil
}

func (m *Image) put(t *Topic) { m.Topics[t.Name], m.ByID[t.ID] = t, t }

func (m *Image) applyRemoveTopic(rec *metarecord.RemoveTopic) error {
	t := m.ByID[rec.ID]
	if t == nil {
		return fmt.Errorf("removal of unknown topic %v", topic.ID(rec.ID))
	}
	delete(m.Topics, t.Name)
	delete(m.ByID, t.ID)
	delete(m.collisions, topic.CollisionKey(t.Name))
	m.Removed[t.ID] = t.Name
	m.Partitions -= len(t.Partitions)
	return nil
}

func (m *Image) applyConfig(rec *metarecord.Config) error {
	switch rec.ResourceType {
	case metarecord.ResourceBroker:
		m.applyBrokerConfig(rec)
		return nil
	case metarecord.ResourceGroup:
		m.groups.apply(rec)
		return nil
	case metarecord.ResourceClientMetrics:
		m.clientMetrics.apply(rec)
		return nil
	case metarecord.ResourceTopic:
	default:
		return fmt.Errorf("configuration of resource type %d", rec.ResourceType)
	}
	t := m.Topics[rec.ResourceName]
	if t == nil {
		return fmt.Errorf("configuration of unknown topic %q", rec.ResourceName)
	}
	t = m.own(t)
	if rec.Value == nil {
		delete(t.Config, rec.Name)
	} else {
		t.Config[rec.Name] = *rec.Value
	}
	return nil
}

// applyBrokerConfig replaces the maps that it changes, since readers use them without a lock.
func (m *Image) applyBrokerConfig(rec *metarecord.Config) {
	brokers := maps.Clone(m.BrokerConfigs)
	config := maps.Clone(brokers[rec.ResourceName])
	if config == nil {
		config = map[string]string{}
	}
	if rec.Value == nil {
		delete(config, rec.Name)
	} else {
		config[rec.Name] = *rec.Value
	}
	if brokers[rec.ResourceName] = config; len(config) == 0 {
		delete(brokers, rec.ResourceName)
	}
	m.BrokerConfigs = brokers
}

// own returns the topic as a copy that may be changed until the next publish, and replaces t with
// it.
func (m *Image) own(t *Topic) *Topic {
	if m.owned[t.ID] {
		return t
	}
	changed := &Topic{Name: t.Name, ID: t.ID, Config: map[string]string{}, Partitions: slices.Clone(t.Partitions)}
	maps.Copy(changed.Config, t.Config)
	m.put(changed)
	m.owned[t.ID] = true
	return changed
}

// Publish makes everything applied so far immutable, as of the given version.
func (m *Image) Publish(version int64) {
	m.Version, m.ownsACLs, m.ownsQuotas, m.ownsTokens = version, false, false, false
	m.ownsUsers, m.groups.owns, m.clientMetrics.owns = false, false, false
	clear(m.owned)
}
