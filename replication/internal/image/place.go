package image

import (
	"bytes"
	"cmp"

	"github.com/stratalog/strata/topic"
)

// A Place names a partition by its topic's id.
type Place struct {
	Topic     topic.ID
	Partition int32
}

// Compare orders places.
func (p Place) Compare(q Place) int {
	return cmp.Or(bytes.Compare(p.Topic[:], q.Topic[:]), cmp.Compare(p.Partition, q.Partition))
}
