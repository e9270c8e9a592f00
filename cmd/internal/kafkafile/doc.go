// Package kafkafile reads single files of a log directory, Apache Kafka's or Strata's. It does not
// open a log, needs no other file and changes nothing. Damage is reported, never repaired.
//
// It reads the formats independently of the packages that write them. So `strata verify` shares no
// mistake with them except in the batch codec itself (package record).
//
// Functions take an io.ReaderAt or the whole content of a small file. Sizes in a file are checked
// against the file's size before an allocation. Readers and visitors are not safe for concurrent
// use.
package kafkafile
