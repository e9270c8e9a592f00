package explore

// exclusions keep operations out that trip over a defect that is known and not mended yet.
var exclusions = map[string]string{
	"odd":               "TruncateTo(-1) and offsets at MaxInt64 end in a log that does not open",
	"largest timestamp": "MaxTimestampOffset is -1 when the record with the largest was deleted",
	"gaps":              "a gap in offsets between segments counts as lost data, and what is behind it is deleted",
	"old snapshots":     "a snapshot of what was truncated comes back with a power cut",
	"unsynced deletes":  "a start offset moved past unsynced segments counts as their recovery point: after a kill and a power cut the log does not open",
	"reconfigure sync":  "a segment begun under SyncOnAck and closed under another policy keeps its reserved space in a power cut, and is damaged then",
	"view during":       "a read-only open meets an append under way and takes it for damage",
	"epochs":            "a log without epochs goes on at epoch 0, below that of its last batch",
}

// Excluded says that an operation is kept out.
func Excluded(what string) bool { return exclusions[what] != "" }

// Exclusions returns what is kept out, and why.
func Exclusions() map[string]string { return exclusions }
