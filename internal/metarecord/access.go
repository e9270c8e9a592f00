package metarecord

// AccessControlEntry adds an access control entry. Numbers are those of Kafka's protocol, which
// package acl names.
type AccessControlEntry struct {
	ID           ID
	ResourceType int8
	ResourceName string
	PatternType  int8
	Principal    string
	Host         string
	Operation    int8
	Permission   int8
}

// RemoveAccessControlEntry removes an entry.
type RemoveAccessControlEntry struct{ ID ID }

func (*AccessControlEntry) header() (uint32, uint32)       { return typeAccessControlEntry, 0 }
func (*RemoveAccessControlEntry) header() (uint32, uint32) { return typeRemoveAccessControlEntry, 0 }

func (e *AccessControlEntry) appendFields(dst []byte, _ uint32) []byte {
	dst = append(append(dst, e.ID[:]...), byte(e.ResourceType))
	dst = append(appendString(dst, e.ResourceName), byte(e.PatternType))
	dst = appendString(appendString(dst, e.Principal), e.Host)
	return appendUvarint(append(dst, byte(e.Operation), byte(e.Permission)), 0)
}

func (e *AccessControlEntry) readFields(r *reader, _ uint32) {
	e.ID, e.ResourceType = r.id(), r.int8()
	e.ResourceName, e.PatternType = r.string(), r.int8()
	e.Principal, e.Host = r.string(), r.string()
	e.Operation, e.Permission = r.int8(), r.int8()
	r.untagged()
}

func (e *RemoveAccessControlEntry) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(append(dst, e.ID[:]...), 0)
}

func (e *RemoveAccessControlEntry) readFields(r *reader, _ uint32) {
	e.ID = r.id()
	r.untagged()
}
