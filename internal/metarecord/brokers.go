package metarecord

// RegisterBroker registers a broker and begins an incarnation: it replaces all state of the broker.
type RegisterBroker struct {
	BrokerID             int32
	IncarnationID        ID
	BrokerEpoch          int64
	EndPoints            []EndPoint
	Features             []BrokerFeature
	Rack                 *string // nil: none
	Fenced               bool
	InControlledShutdown bool // version 1
	Directories          []ID // version 3
}

// An EndPoint is where a broker listens.
type EndPoint struct {
	Name, Host       string
	Port             uint16
	SecurityProtocol int16
}

// A BrokerFeature is the range of levels of a feature that a broker can work at.
type BrokerFeature struct {
	Name     string
	Min, Max int16
}

// UnregisterBroker removes a broker from the cluster.
type UnregisterBroker struct {
	BrokerID    int32
	BrokerEpoch int64
}

// Values of the changes in BrokerChange. Kafka: BrokerRegistrationFencingChange.
const (
	Unset     int8 = -1 // the broker is not fenced any more
	Unchanged int8 = 0
	Set       int8 = 1
)

// BrokerChange changes a broker's registration. Kafka: BrokerRegistrationChangeRecord.
type BrokerChange struct {
	BrokerID             int32
	BrokerEpoch          int64
	Fenced               int8
	InControlledShutdown int8 // version 1; Unchanged or Set
	Directories          []ID // version 2; nil: unchanged
}

// Tags of RegisterBroker and BrokerChange.
const (
	tagRegisteredDirectories  = 0
	tagChangedFenced          = 0
	tagChangedShutdown        = 1
	tagChangedBrokerDirectory = 2
)

func (b *RegisterBroker) header() (uint32, uint32) { return typeRegisterBroker, 3 }
func (*UnregisterBroker) header() (uint32, uint32) { return typeUnregisterBroker, 0 }

func (b *BrokerChange) header() (uint32, uint32) {
	switch {
	case b.Directories != nil:
		return typeBrokerChange, 2
	case b.InControlledShutdown != Unchanged:
		return typeBrokerChange, 1
	}
	return typeBrokerChange, 0
}

func (b *RegisterBroker) appendFields(dst []byte, version uint32) []byte {
	dst = appendInt32(dst, b.BrokerID)
	if version >= 2 {
		dst = append(dst, 0) // migrating from ZooKeeper
	}
	dst = appendInt64(append(dst, b.IncarnationID[:]...), b.BrokerEpoch)
	dst = appendUvarint(dst, uint32(len(b.EndPoints))+1)
	for _, e := range b.EndPoints {
		dst = appendString(appendString(dst, e.Name), e.Host)
		dst = appendInt16(appendInt16(dst, int16(e.Port)), e.SecurityProtocol)
		dst = appendUvarint(dst, 0)
	}
	dst = appendUvarint(dst, uint32(len(b.Features))+1)
	for _, f := range b.Features {
		dst = appendInt16(appendInt16(appendString(dst, f.Name), f.Min), f.Max)
		dst = appendUvarint(dst, 0)
	}
	if b.Rack == nil {
		dst = appendUvarint(dst, 0)
	} else {
		dst = appendString(dst, *b.Rack)
	}
	dst = appendBool(dst, b.Fenced)
	if version >= 1 {
		dst = appendBool(dst, b.InControlledShutdown)
	}
	var t tags
	if version >= 3 && len(b.Directories) > 0 {
		t.add(tagRegisteredDirectories, appendIDs(nil, b.Directories))
	}
	return t.appendTo(dst)
}

func (b *RegisterBroker) readFields(r *reader, version uint32) {
	b.BrokerID = r.int32()
	if version >= 2 {
		r.int8()
	}
	b.IncarnationID, b.BrokerEpoch = r.id(), r.int64()
	for range r.array(7) { // bytes of the shortest
		e := EndPoint{Name: r.string(), Host: r.string(), Port: uint16(r.int16()), SecurityProtocol: r.int16()}
		r.untagged()
		b.EndPoints = append(b.EndPoints, e)
	}
	for range r.array(6) {
		f := BrokerFeature{Name: r.string(), Min: r.int16(), Max: r.int16()}
		r.untagged()
		b.Features = append(b.Features, f)
	}
	if rack, ok := r.str(); ok {
		b.Rack = &rack
	}
	b.Fenced = r.int8() != 0
	if version >= 1 {
		b.InControlledShutdown = r.int8() != 0
	}
	r.tagged(func(tag uint32, f *reader) {
		if version >= 3 && tag == tagRegisteredDirectories {
			b.Directories = f.ids()
		}
	})
}

func (u *UnregisterBroker) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(appendInt64(appendInt32(dst, u.BrokerID), u.BrokerEpoch), 0)
}

func (u *UnregisterBroker) readFields(r *reader, _ uint32) {
	u.BrokerID, u.BrokerEpoch = r.int32(), r.int64()
	r.untagged()
}

func (b *BrokerChange) appendFields(dst []byte, version uint32) []byte {
	dst = appendInt64(appendInt32(dst, b.BrokerID), b.BrokerEpoch)
	var t tags
	if b.Fenced != Unchanged {
		t.add(tagChangedFenced, []byte{byte(b.Fenced)})
	}
	if version >= 1 && b.InControlledShutdown != Unchanged {
		t.add(tagChangedShutdown, []byte{byte(b.InControlledShutdown)})
	}
	if version >= 2 {
		t.add(tagChangedBrokerDirectory, appendIDs(nil, b.Directories))
	}
	return t.appendTo(dst)
}

func (b *BrokerChange) readFields(r *reader, version uint32) {
	b.BrokerID, b.BrokerEpoch = r.int32(), r.int64()
	r.tagged(func(tag uint32, f *reader) {
		switch {
		case tag == tagChangedFenced:
			b.Fenced = f.int8()
		case tag == tagChangedShutdown && version >= 1:
			b.InControlledShutdown = f.int8()
		case tag == tagChangedBrokerDirectory && version >= 2:
			if b.Directories = f.ids(); b.Directories == nil {
				b.Directories = []ID{}
			}
		}
	})
}
