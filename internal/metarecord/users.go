package metarecord

// UserScramCredential sets the credential of a user for one mechanism: 1 is SCRAM-SHA-256, 2
// SCRAM-SHA-512.
type UserScramCredential struct {
	Name                       string
	Mechanism                  int8
	Salt, StoredKey, ServerKey []byte
	Iterations                 int32
}

// RemoveUserScramCredential takes it away.
type RemoveUserScramCredential struct {
	Name      string
	Mechanism int8
}

// DelegationToken creates a token of its owner, or changes its expiration. Owner, Requester and
// Renewers are principals, User:alice; times are milliseconds since the Unix epoch. The secret of
// the token is not in it: it follows from the id and a key.
type DelegationToken struct {
	Owner, Requester                                  string
	Renewers                                          []string
	IssueTimestamp, MaxTimestamp, ExpirationTimestamp int64
	TokenID                                           string
}

// RemoveDelegationToken takes a token away.
type RemoveDelegationToken struct{ TokenID string }

func (*UserScramCredential) header() (uint32, uint32)       { return typeUserScramCredential, 0 }
func (*RemoveUserScramCredential) header() (uint32, uint32) { return typeRemoveUserScramCredential, 0 }
func (*DelegationToken) header() (uint32, uint32)           { return typeDelegationToken, 0 }
func (*RemoveDelegationToken) header() (uint32, uint32)     { return typeRemoveDelegationToken, 0 }

func (u *UserScramCredential) appendFields(dst []byte, _ uint32) []byte {
	dst = append(appendString(dst, u.Name), byte(u.Mechanism))
	dst = appendBytes(appendBytes(appendBytes(dst, u.Salt), u.StoredKey), u.ServerKey)
	return appendUvarint(appendInt32(dst, u.Iterations), 0)
}

func (u *UserScramCredential) readFields(r *reader, _ uint32) {
	u.Name, u.Mechanism = r.string(), r.int8()
	u.Salt, u.StoredKey, u.ServerKey = r.bytes(), r.bytes(), r.bytes()
	u.Iterations = r.int32()
	r.untagged()
}

func (u *RemoveUserScramCredential) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(append(appendString(dst, u.Name), byte(u.Mechanism)), 0)
}

func (u *RemoveUserScramCredential) readFields(r *reader, _ uint32) {
	u.Name, u.Mechanism = r.string(), r.int8()
	r.untagged()
}

func (d *DelegationToken) appendFields(dst []byte, _ uint32) []byte {
	dst = appendString(appendString(dst, d.Owner), d.Requester)
	dst = appendUvarint(dst, uint32(len(d.Renewers))+1)
	for _, name := range d.Renewers {
		dst = appendString(dst, name)
	}
	dst = appendInt64(appendInt64(appendInt64(dst, d.IssueTimestamp), d.MaxTimestamp), d.ExpirationTimestamp)
	return appendUvarint(appendString(dst, d.TokenID), 0)
}

func (d *DelegationToken) readFields(r *reader, _ uint32) {
	d.Owner, d.Requester = r.string(), r.string()
	for range r.array(1) {
		d.Renewers = append(d.Renewers, r.string())
	}
	d.IssueTimestamp, d.MaxTimestamp, d.ExpirationTimestamp = r.int64(), r.int64(), r.int64()
	d.TokenID = r.string()
	r.untagged()
}

func (d *RemoveDelegationToken) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(appendString(dst, d.TokenID), 0)
}

func (d *RemoveDelegationToken) readFields(r *reader, _ uint32) {
	d.TokenID = r.string()
	r.untagged()
}

func appendBytes(dst, b []byte) []byte { return append(appendUvarint(dst, uint32(len(b))+1), b...) }

// bytes reads compact bytes, which are not null.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n == 0 {
		r.fail("null bytes")
		return nil
	}
	return append([]byte{}, r.take(r.count(n, 1))...)
}
