// Package record is the codec of Kafka's record batch v2.
package record
