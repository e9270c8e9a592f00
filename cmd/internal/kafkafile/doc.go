// Package kafkafile reads the files of a log directory, Apache Kafka's and Strata's, one by
// one: without opening a log, without relying on another file, and without changing
// anything. Damage is reported, never repaired.
//
// It is a second reader of the formats, apart from the packages that write them, so that `strata
// verify` shares no mistake with them except those of the batch codec itself (package record).
//
// Functions take an io.ReaderAt or the whole content of a small file. Sizes found in a
// file are held against the file's size before memory is asked for. Nothing here is
// safe for concurrent use, nor needs to be.
package kafkafile
