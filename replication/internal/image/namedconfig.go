package image

import (
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
)

// maxNamedConfigBytes limits the configurations of all resources of one type, in bytes of names
// and values. The limit is needed because a client that configures a resource chooses its name,
// and all brokers have it in memory.
const maxNamedConfigBytes = 16 << 20

// NamedConfigs are the configurations of groups, or of client metrics, by name. Such a resource
// exists once it is configured, or its configuration does not depend on its existence.
type NamedConfigs struct {
	byName map[string]map[string]string // no configuration is empty. Replaced, never written to
	bytes  int                          // of names and values
}

// Of returns the configuration of a resource, which must not be written to. It may be called on
// nil.
func (n *NamedConfigs) Of(name string) map[string]string {
	if n == nil {
		return nil
	}
	return n.byName[name]
}

// Names returns the names of the configured resources, sorted. It may be called on nil.
func (n *NamedConfigs) Names() []string {
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.byName))
}

// namedConfigs are the configurations of one type in an image.
type namedConfigs struct {
	now  *NamedConfigs // nil if there are none. Replaced by the first change after a publish
	owns bool          // now was made since the last publish
}

// Groups returns the configurations of groups, or nil if there are none. A published value does not
// change.
func (m *Image) Groups() *NamedConfigs { return m.groups.now }

// ClientMetrics returns the configurations of client metrics, or nil if there are none. A published
// value does not change.
func (m *Image) ClientMetrics() *NamedConfigs { return m.clientMetrics.now }

func configBytes(name string, config map[string]string) (n int) {
	for k, v := range config {
		n += len(name) + len(k) + len(v)
	}
	return n
}

// apply copies the table of resources once between two publishes, since readers use it without a
// lock.
func (c *namedConfigs) apply(rec *metarecord.Config) {
	if !c.owns {
		owned := NamedConfigs{byName: map[string]map[string]string{}}
		if c.now != nil {
			owned = NamedConfigs{maps.Clone(c.now.byName), c.now.bytes}
		}
		c.now, c.owns = &owned, true
	}
	n := c.now
	config := maps.Clone(n.byName[rec.ResourceName])
	n.bytes -= configBytes(rec.ResourceName, config)
	if config == nil {
		config = map[string]string{}
	}
	if rec.Value == nil {
		delete(config, rec.Name)
	} else {
		config[rec.Name] = *rec.Value
	}
	n.bytes += configBytes(rec.ResourceName, config)
	if n.byName[rec.ResourceName] = config; len(config) == 0 {
		delete(n.byName, rec.ResourceName)
	}
	if len(n.byName) == 0 {
		c.now, c.owns = nil, false
	}
}

// AlterGroup returns the records that change a group's configuration. edit returns the new
// configuration or an error; it must not write to its argument. A *PolicyError rejects more than a
// cluster may have.
func (m *Image) AlterGroup(id string, edit func(before map[string]string) (after map[string]string, err error)) ([]metarecord.Record, error) {
	return m.groups.alter(metarecord.ResourceGroup, "groups", id, edit)
}

// AlterClientMetrics is AlterGroup for client metrics.
func (m *Image) AlterClientMetrics(name string, edit func(before map[string]string) (after map[string]string, err error)) ([]metarecord.Record, error) {
	return m.clientMetrics.alter(metarecord.ResourceClientMetrics, "client metrics", name, edit)
}

// alter is AlterGroup for resources of the given kind, which errors call what.
func (c *namedConfigs) alter(kind int8, what, name string, edit func(map[string]string) (map[string]string, error)) ([]metarecord.Record, error) {
	before := c.now.Of(name)
	after, err := edit(before)
	if err != nil {
		return nil, err
	}
	size := configBytes(name, after) - configBytes(name, before)
	if size > 0 && c.now != nil {
		size += c.now.bytes
	}
	if size > maxNamedConfigBytes {
		return nil, policy("the configurations of all %s have at most %d bytes", what, maxNamedConfigBytes)
	}
	return ConfigRecords(kind, name, before, after), nil
}

func (m *Image) namedRecords() (recs []metarecord.Record) {
	for _, of := range []struct {
		kind    int8
		configs *NamedConfigs
	}{{metarecord.ResourceClientMetrics, m.ClientMetrics()}, {metarecord.ResourceGroup, m.Groups()}} {
		for _, name := range of.configs.Names() {
			recs = append(recs, ConfigRecords(of.kind, name, nil, of.configs.Of(name))...)
		}
	}
	return recs
}
