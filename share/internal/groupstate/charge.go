package groupstate

import "github.com/stratalog/strata/internal/machine"

const (
	// stateBytes is the memory of a state beside the id of its group and its batches.
	stateBytes = 768
	// batchBytes is the memory of a batch in a state.
	batchBytes = 24
)

// ChargeTo counts the memory of the state in c. It must be called before the first Apply.
func (m *Machine) ChargeTo(c machine.Charge) { m.charge = c }

// keep charges the present state.
func (m *Machine) keep() {
	n := 0
	if m.value != nil {
		n = stateBytes + len(m.key.Group) + len(m.value.Batches)*batchBytes
	}
	m.charge.Add(n - m.kept)
	m.kept = n
}

// fits reports whether there is a state already, or a new one is within b.
func (m *Machine) fits(b machine.Bound) bool {
	return m.value != nil || m.charge.Fits(b, stateBytes+len(m.key.Group))
}
