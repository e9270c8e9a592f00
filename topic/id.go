package topic

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
)

// An ID identifies one incarnation of a topic: a topic that is deleted and created again under the
// same name has another ID. The zero ID means none. It is a random (version 4) UUID.
type ID [16]byte

// ErrInvalidID is matched by errors of ParseID.
var ErrInvalidID = errors.New("topic: invalid topic id")

// NewID returns a random ID. Like Kafka it avoids the reserved values and those whose text begins
// with '-'.
func NewID() ID {
	for {
		var id ID
		_, _ = rand.Read(id[:]) // never fails: the runtime aborts the program instead
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns Kafka's text form: base64url without padding, 22 characters.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseID parses the text form of String. The error matches ErrInvalidID.
func ParseID(s string) (ID, error) {
	var id ID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return ID{}, fmt.Errorf("%w: %q is not 22 characters of base64url", ErrInvalidID, s)
	}
	copy(id[:], b)
	return id, nil
}
