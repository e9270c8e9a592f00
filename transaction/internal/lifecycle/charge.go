package lifecycle

import (
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
)

const (
	// idBytes is the memory of an id beside its name and the partitions of its transaction.
	idBytes = 768
	// partitionBytes is the memory of a partition in a transaction beside the name of its topic,
	// with the marker that it gets.
	partitionBytes = 256
	// leastIDBytes is the least memory that is counted for an id. It covers a short transaction.
	leastIDBytes = 3 << 9
)

// ChargeTo counts the memory of the id in c. It must be called before the first Apply.
func (m *Machine) ChargeTo(c machine.Charge) { m.charge = c }

// bytesOf estimates the memory of an id with that state, in bytes.
func bytesOf(id string, v *txnlog.Value) int {
	if v == nil {
		return 0
	}
	n := idBytes + len(id)
	for _, tp := range v.Partitions {
		n += partitionBytes + len(tp.Topic)
	}
	return max(leastIDBytes, n)
}

// keep charges the present state.
func (m *Machine) keep() {
	n := bytesOf(m.id, m.value) - m.kept
	m.kept += n
	m.charge.Add(n)
}

// fits reports whether v, as the next state, is within b, or needs no more memory than the present
// one.
func (m *Machine) fits(b machine.Bound, v *txnlog.Value) bool {
	n := bytesOf(m.id, v) - m.kept
	return n <= 0 || m.charge.Fits(b, n)
}
