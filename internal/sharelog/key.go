package sharelog

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/stratalog/strata/internal/wire"
)

// A Key names a share-partition: a partition of a topic, for a group.
type Key struct {
	Group     string // at most 32767 bytes
	TopicID   [16]byte
	Partition int32
}

// ID returns the key as text, group:topicId:partition. It determines the partition of the topic.
// Kafka: SharePartitionKey.asCoordinatorKey.
func (k Key) ID() string {
	return k.Group + ":" + base64.RawURLEncoding.EncodeToString(k.TopicID[:]) + ":" + strconv.Itoa(int(k.Partition))
}

// ParseID is the reverse of Key.ID. The group may have colons in it.
func ParseID(id string) (k Key, err error) {
	rest, number, _ := cutLast(id)
	group, topicID, ok := cutLast(rest)
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || n < 0 {
		return Key{}, fmt.Errorf("%w: %q is not group:topicId:partition", ErrMalformed, id)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(topicID)
	if err != nil || len(raw) != len(k.TopicID) {
		return Key{}, fmt.Errorf("%w: %q is no topic id", ErrMalformed, topicID)
	}
	return Key{Group: group, TopicID: [16]byte(raw), Partition: int32(n)}, nil
}

func cutLast(s string) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return "", s, false
}

// Types of records, as their keys begin.
const (
	typeSnapshot = 0
	typeUpdate   = 1
)

// AppendKey appends the key of a snapshot, or of an update, of a share-partition.
func AppendKey(dst []byte, k Key, update bool) []byte {
	t := int16(typeSnapshot)
	if update {
		t = typeUpdate
	}
	dst = wire.AppendString(wire.AppendInt16(dst, t), k.Group)
	return wire.AppendInt32(append(dst, k.TopicID[:]...), k.Partition)
}

// parseKey reads what AppendKey writes; known is false for other types.
func parseKey(p []byte) (k Key, update, known bool, err error) {
	r := wire.Reader{P: p}
	t := r.Int16()
	if r.Err == nil && t != typeSnapshot && t != typeUpdate {
		return Key{}, false, false, nil
	}
	k.Group = r.String()
	copy(k.TopicID[:], r.Take(len(k.TopicID), "topic id"))
	k.Partition = r.Int32()
	if r.Err == nil && (len(r.P) > 0 || k.Partition < 0) {
		r.Fail("key")
	}
	if r.Err != nil {
		return Key{}, false, false, r.Err
	}
	return k, t == typeUpdate, true, nil
}
