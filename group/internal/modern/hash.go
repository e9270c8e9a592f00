package modern

// Hash returns a number that changes with the topics of these names, which are sorted; 0 if none
// exists. t may be nil.
func (t *Topics) Hash(names []string) int64 { return t.hash(names) }
