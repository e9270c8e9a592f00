package metarecord

// Topic creates a topic. Its partitions follow in Partition records.
type Topic struct {
	Name string
	ID   ID
}

// RemoveTopic removes a topic and all its partitions.
type RemoveTopic struct{ ID ID }

// Resource types of Config.
const (
	ResourceTopic         = 2
	ResourceBroker        = 4
	ResourceClientMetrics = 16
	ResourceGroup         = 32
)

// Config sets one configuration key of a resource; a nil Value removes it.
type Config struct {
	ResourceType int8
	ResourceName string
	Name         string
	Value        *string
}

// ProducerIDs records that all producer ids below Next are used.
type ProducerIDs struct {
	BrokerID    int32
	BrokerEpoch int64
	Next        int64
}

// NoOp has no effect, or begins a snapshot: the later records in its batch are the whole state, and
// all earlier records are void. Kafka has separate files for snapshots, and skips that tagged
// field.
type NoOp struct{ Snapshot bool }

// tagSnapshot is far away from those that Kafka may give out.
const tagSnapshot = 10_000

func (t *Topic) header() (uint32, uint32)       { return typeTopic, 0 }
func (t *RemoveTopic) header() (uint32, uint32) { return typeRemoveTopic, 0 }
func (c *Config) header() (uint32, uint32)      { return typeConfig, 0 }
func (p *ProducerIDs) header() (uint32, uint32) { return typeProducerIDs, 0 }
func (*NoOp) header() (uint32, uint32)          { return typeNoOp, 0 }

func (t *Topic) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(append(appendString(dst, t.Name), t.ID[:]...), 0)
}

func (t *Topic) readFields(r *reader, _ uint32) {
	t.Name, t.ID = r.string(), r.id()
	r.untagged()
}

func (t *RemoveTopic) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(append(dst, t.ID[:]...), 0)
}

func (t *RemoveTopic) readFields(r *reader, _ uint32) {
	t.ID = r.id()
	r.untagged()
}

func (c *Config) appendFields(dst []byte, _ uint32) []byte {
	dst = append(dst, byte(c.ResourceType))
	dst = appendString(appendString(dst, c.ResourceName), c.Name)
	if c.Value == nil {
		dst = appendUvarint(dst, 0)
	} else {
		dst = appendString(dst, *c.Value)
	}
	return appendUvarint(dst, 0)
}

func (c *Config) readFields(r *reader, _ uint32) {
	c.ResourceType, c.ResourceName, c.Name = r.int8(), r.string(), r.string()
	if v, ok := r.str(); ok {
		c.Value = &v
	}
	r.untagged()
}

func (p *ProducerIDs) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(appendInt64(appendInt64(appendInt32(dst, p.BrokerID), p.BrokerEpoch), p.Next), 0)
}

func (p *ProducerIDs) readFields(r *reader, _ uint32) {
	p.BrokerID, p.BrokerEpoch, p.Next = r.int32(), r.int64(), r.int64()
	r.untagged()
}

func (n *NoOp) appendFields(dst []byte, _ uint32) []byte {
	var t tags
	if n.Snapshot {
		t.add(tagSnapshot, []byte{1})
	}
	return t.appendTo(dst)
}

func (n *NoOp) readFields(r *reader, _ uint32) {
	r.tagged(func(tag uint32, field *reader) {
		if tag == tagSnapshot {
			n.Snapshot = field.int8() == 1
		}
	})
}
