package image

import (
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
)

// maxGroupConfigBytes is what the configurations of all groups may come to, in bytes of names and
// values: a group is named by whoever configures it, and nobody fills the memory of all brokers.
const maxGroupConfigBytes = 16 << 20

// GroupConfigs are the configurations of groups, by the group's id. Whether a group exists does not
// matter.
type GroupConfigs struct {
	byID  map[string]map[string]string // an entry is not empty. Replaced, never written to
	bytes int                          // of names and values
}

// Of returns what is set on a group, which must not be written to. It may be called on nil.
func (g *GroupConfigs) Of(id string) map[string]string {
	if g == nil {
		return nil
	}
	return g.byID[id]
}

// IDs returns the groups on which something is set, sorted. It may be called on nil.
func (g *GroupConfigs) IDs() []string {
	if g == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(g.byID))
}

// Groups returns the configurations of groups; nil: there are none. What was published does not
// change.
func (m *Image) Groups() *GroupConfigs { return m.groups }

func configBytes(id string, config map[string]string) (n int) {
	for k, v := range config {
		n += len(id) + len(k) + len(v)
	}
	return n
}

// applyGroupConfig copies the table of groups once between two publishes: others read it without a
// lock.
func (m *Image) applyGroupConfig(rec *metarecord.Config) {
	if !m.ownsGroups {
		owned := GroupConfigs{byID: map[string]map[string]string{}}
		if m.groups != nil {
			owned = GroupConfigs{maps.Clone(m.groups.byID), m.groups.bytes}
		}
		m.groups, m.ownsGroups = &owned, true
	}
	g := m.groups
	config := maps.Clone(g.byID[rec.ResourceName])
	g.bytes -= configBytes(rec.ResourceName, config)
	if config == nil {
		config = map[string]string{}
	}
	if rec.Value == nil {
		delete(config, rec.Name)
	} else {
		config[rec.Name] = *rec.Value
	}
	g.bytes += configBytes(rec.ResourceName, config)
	if g.byID[rec.ResourceName] = config; len(config) == 0 {
		delete(g.byID, rec.ResourceName)
	}
	if len(g.byID) == 0 {
		m.groups, m.ownsGroups = nil, false
	}
}

// AlterGroup returns the records that change what is set on a group. edit returns what is set
// afterwards, or refuses; it must not write to what it gets. A *PolicyError refuses more than a
// cluster may have.
func (m *Image) AlterGroup(id string, edit func(before map[string]string) (after map[string]string, err error)) ([]metarecord.Record, error) {
	before := m.groups.Of(id)
	after, err := edit(before)
	if err != nil {
		return nil, err
	}
	size := configBytes(id, after) - configBytes(id, before)
	if size > 0 && m.groups != nil {
		size += m.groups.bytes
	}
	if size > maxGroupConfigBytes {
		return nil, policy("the configurations of all groups have at most %d bytes", maxGroupConfigBytes)
	}
	return ConfigRecords(metarecord.ResourceGroup, id, before, after), nil
}

func (m *Image) groupRecords() (recs []metarecord.Record) {
	for _, id := range m.groups.IDs() {
		recs = append(recs, ConfigRecords(metarecord.ResourceGroup, id, nil, m.groups.Of(id))...)
	}
	return recs
}
