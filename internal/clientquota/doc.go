// Package clientquota implements client quotas: their entities, the quota that applies to a client,
// and the throttle times, as in Kafka (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612).
//
// An Entity is the owner of quotas; a Set is the quotas of a cluster. Meters measure usage in one
// broker and compute throttle times. The package has no clock, goroutine or lock.
package clientquota
