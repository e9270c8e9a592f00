// Package topic describes topics apart from their data: names and ids, configuration by Kafka's
// keys, and the partitioners that choose a record's partition.
//
// Use Config to create a topic in a cluster of package strata or replication, and a Partitioner in
// a producer.Config. Package partition holds the data of a topic's partitions.
//
// # Configuration
//
// The canonical configuration of a topic is the map of its explicitly set Kafka keys
// ("retention.ms": "60000"). The controller stores that map, and Kafka's tools display it. Config
// is a front end for it: a field of the struct and the same key in Properties are one setting, and
// different values for the two are an error. Keys lists every key with type, default, bounds and
// meaning. Parse checks a map and combines it with the cluster's defaults. Settings returns
// effective values and their sources.
//
// Unknown keys, values of the wrong type or out of bounds, and values that Strata cannot implement
// (tiered storage) are rejected with a *ConfigError that names key, value and reason. No accepted
// setting is ignored.
//
// One default differs from Kafka's: as long as neither flush.messages nor flush.ms is set, every
// acknowledged record is on stable storage (log.SyncOnAck), as if flush.messages were 1. Kafka
// leaves writing back to the operating system and relies on replicas. For Kafka's default set
// flush.messages=9223372036854775807. As soon as one of the two is set, both have Kafka's meaning.
//
// # Segment size
//
// Records expire in whole closed segments. The time until a segment is closed depends on the size
// of the records, their rate, and the number of partitions: the default of a gigabyte is an hour of
// one topic and a year of another. Settings.Advise calculates segment.bytes and segment.ms from a
// Load, so that a record is kept at most a twentieth longer than its retention, in some twenty
// segments. Settings.WarningsUnder reports settings that do not fit a Load. The command "strata
// topics advise" measures the load of a topic and does both.
//
// # Partitioners
//
// The producer chooses partitions. Default hashes the key as the Java client does, and distributes
// records without a key round robin. Adding partitions to a topic changes the partitions of keys
// from then on; records already written stay where they are.
package topic
