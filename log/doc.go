// Package log is an append-only log of records in Kafka's files: ordered segments that roll, are read, truncated, and removed when they are old.
package log
