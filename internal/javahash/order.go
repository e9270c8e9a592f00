package javahash

import (
	"cmp"
	"slices"
)

// Table is the default number of buckets of Java's hash tables.
const Table = 16

// Order returns values, which must differ, in the order of a Java HashSet to which they were added
// in the given order. table is its initial number of buckets, a power of two. Buckets of eight and
// more values, which are trees in Java, are treated like others.
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

// TableOf returns the initial number of buckets of a HashSet that is created from a list of n
// values.
func TableOf(n int) int {
	table := Table
	for table < 4*n/3+1 {
		table *= 2
	}
	return table
}

// TableFor returns the initial number of buckets of a HashMap with an initial capacity of n, at
// least 1.
func TableFor(n int) int {
	table := 1
	for table < n {
		table *= 2
	}
	return table
}
