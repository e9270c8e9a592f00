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
	// leastIDBytes is the least that an id counts for: a short transaction does not change it.
	leastIDBytes = 3 << 9
)

// ChargeTo has the memory of the id added to c. It must be called before the first Apply.
func (m *Machine) ChargeTo(c machine.Charge) { m.charge = c }

// bytesOf returns about how many bytes a coordinator holds for an id with that state.
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

// fits reports whether v, as the next state, is within b. A state that needs no more memory is.
func (m *Machine) fits(b machine.Bound, v *txnlog.Value) bool {
	n := bytesOf(m.id, v) - m.kept
	return n <= 0 || m.charge.Fits(b, n)
}
