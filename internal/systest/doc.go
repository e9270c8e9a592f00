// Package systest tests a whole cluster together with its clients: producers, consumers, groups,
// transactions and share groups over brokers that are killed, cut off and restarted. It has no code
// besides its tests. The tests of the root package's own methods are in the root directory.
package systest
