package javahash

import (
	"cmp"
	"slices"
)

// Table is the default number of buckets of Java's hash tables.
const Table = 16

// Order returns values, which differ, in the order in which a HashSet of Java's has them to which
// they were added in the order given. table is how many buckets it had at first, a power of two.
// Buckets of eight and more values, which are trees in Java, are treated like others.
func Order(values []string, table int) []string {
	for 4*len(values) > 3*table {
		table *= 2
	}
	bucket := func(s string) int {
		h := uint32(code(s))
		return int(h^h>>16) & (table - 1)
	}
	ordered := slices.Clone(values)
	slices.SortStableFunc(ordered, func(a, b string) int { return cmp.Compare(bucket(a), bucket(b)) })
	return ordered
}

// TableOf is how many buckets a HashSet has at first that is made of a list of n values.
func TableOf(n int) int {
	table := Table
	for table < 4*n/3+1 {
		table *= 2
	}
	return table
}

// TableFor is how many buckets a HashMap has at first that is made for n entries, at least 1.
func TableFor(n int) int {
	table := 1
	for table < n {
		table *= 2
	}
	return table
}
