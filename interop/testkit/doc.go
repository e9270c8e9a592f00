// Package testkit shows kafkatest, a broker for tests, with three clients that people use. Its
// examples and tests are to be copied from.
package testkit
