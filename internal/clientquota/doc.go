// Package clientquota says what client quotas there are and whom each of them bounds, as Kafka does
// (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612).
//
// An Entity is whose quota something is; a Set is the quotas of a cluster. Meters measure what is
// used of them, by one broker, and say how long whoever has used too much has to wait. The package
// only computes: it has no clock, goroutine or lock.
package clientquota
