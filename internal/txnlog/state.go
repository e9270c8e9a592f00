package txnlog

// State is the state of a transactional id. The topic stores its numbers. Kafka: TransactionState.
type State int8

const (
	Empty          State = iota // a producer was initialised, and has begun no transaction
	Ongoing                     // a transaction has partitions
	PrepareCommit               // the transaction commits: markers are being written
	PrepareAbort                // the transaction aborts: markers are being written
	CompleteCommit              // all markers are written
	CompleteAbort               // all markers are written
	Dead                        // the id does not exist
)

// String returns Kafka's name of the state.
func (s State) String() string {
	names := [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"}
	if s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Prepared reports whether the outcome is decided, and markers are still being written.
func (s State) Prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// Complete reports whether a transaction has ended and the next one has not begun.
func (s State) Complete() bool { return s == CompleteCommit || s == CompleteAbort }
