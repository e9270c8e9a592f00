package txnlog

// State is the state of a transactional id. Its numbers are those in the topic. Kafka:
// TransactionState.
type State int8

const (
	Empty          State = iota // a producer has begun, and no transaction of it
	Ongoing                     // a transaction has partitions
	PrepareCommit               // it is decided that it commits; markers are being written
	PrepareAbort                // it is decided that it aborts; markers are being written
	CompleteCommit              // all markers are written
	CompleteAbort               // all markers are written
	Dead                        // there is no such id, or not any more
)

// String returns Kafka's name of the state.
func (s State) String() string {
	names := [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"}
	if s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Prepared reports whether the outcome is decided and not yet marked everywhere.
func (s State) Prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// Complete reports whether a transaction has ended and the next one has not begun.
func (s State) Complete() bool { return s == CompleteCommit || s == CompleteAbort }
