// Package topic holds what a topic is apart from its data: its name and id, its configuration in
// Kafka's keys, and the partitioners that choose a record's partition.
//
// # Configuration
//
// Canonically a topic's configuration is the map of the Kafka keys that were set explicitly
// ("retention.ms": "60000"). That map is what the controller stores and what Kafka's tools see.
// Config is a front for it: a field of the struct and the same key in Properties are one setting,
// and setting both to different values is an error. Keys lists every key with type, default, bounds
// and meaning; Parse checks a map and lays it over the cluster's defaults; Settings answers with
// effective values and their sources.
//
// Unknown keys, values of the wrong type or out of bounds, and values that cannot be honoured here
// (tiered storage) are refused with a *ConfigError that names key, value and reason. Nothing is
// accepted and then ignored.
//
// One default is not Kafka's: as long as neither flush.messages nor flush.ms is set, every
// acknowledged record is on stable storage (log.SyncOnAck), as if flush.messages were 1. Kafka
// leaves writing back to the operating system and relies on replicas; say so with
// flush.messages=9223372036854775807. As soon as one of the two is set, both mean what they mean in
// Kafka.
//
// # Segment size
//
// Records expire by whole closed segments. How long a segment takes to close follows from the size
// of the records, how many come in a second, and over how many partitions: a gigabyte, the default,
// is an hour of one topic and a year of another. Settings.Advise calculates segment.bytes and
// segment.ms from a Load so that a record is kept at most a twentieth longer than asked for, in
// some twenty segments; Settings.WarningsUnder tells which settings do not fit a Load. The command
// "strata topics advise" measures the load of a topic and does both.
//
// # Partitioners
//
// The producer chooses partitions. Default hashes the key as the Java client does and gives records
// without a key to the partitions in turn. Growing a topic changes where keys go from then on;
// records already written stay where they are.
package topic
