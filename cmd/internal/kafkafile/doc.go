// Package kafkafile reads the files of a log directory, Apache Kafka's and Strata's, one by
// one: without opening a log, without relying on another file, and without changing
// anything. Damage is reported, never repaired.
//
// It is a second reader of the formats, apart from the packages that write them. So `strata verify`
// shares no mistake with them except in the batch codec itself (package record).
//
// Functions take an io.ReaderAt or the whole content of a small file. Sizes in a file are checked
// against the file's size before an allocation. Nothing here is safe for concurrent use, nor needs
// to be.
package kafkafile
