package topic

import (
	"errors"
	"fmt"
	"strings"
)

// MaxNameLength is the greatest length of a topic name in bytes.
const MaxNameLength = 249

// MetadataTopic is the name of the controller's log. It is not a topic: it cannot be created,
// listed or read through the topic API.
const MetadataTopic = "__cluster_metadata"

// TransactionTopic is the name of the internal topic in which the transaction coordinator stores
// the states of transactions.
const TransactionTopic = "__transaction_state"

// ErrInvalidName is matched by errors of ValidateName.
var ErrInvalidName = errors.New("topic: invalid name")

// ValidateName returns an error unless name is a valid topic name: 1 to 249 of [a-zA-Z0-9._-], and
// neither "." nor "..". A valid name is safe as a part of a file name. The error matches
// ErrInvalidName. Kafka: Topic.validate.
func ValidateName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q", ErrInvalidName, name)
	case len(name) > MaxNameLength:
		return fmt.Errorf("%w: %q... has %d characters, at most %d are allowed", ErrInvalidName, name[:32], len(name), MaxNameLength)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("%w: %q holds a character other than a-z, A-Z, 0-9, '.', '_' and '-'", ErrInvalidName, name)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// CollisionKey returns the name with every '.' replaced by '_'. Two topics with the same key
// collide in metric names; like Kafka, a cluster rejects the second one.
func CollisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }

// IsInternal reports whether name is an internal topic with the state of a coordinator. Clients may
// read internal topics but not write them.
func IsInternal(name string) bool {
	return name == "__consumer_offsets" || name == TransactionTopic || name == "__share_group_state"
}
