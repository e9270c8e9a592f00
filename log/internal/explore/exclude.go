package explore

// exclusions keep operations out that trip over a defect that is known and not mended yet.
var exclusions = map[string]string{
	"largest timestamp": "MaxTimestampOffset is -1 when the record with the largest was deleted",
}

// Excluded says that an operation is kept out.
func Excluded(what string) bool { return exclusions[what] != "" }

// Exclusions returns what is kept out, and why.
func Exclusions() map[string]string { return exclusions }
