// Package scram is the server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as
// Apache Kafka speaks it: a client proves that it knows a password, and neither sends it nor learns
// from the exchange what the server has of it.
//
// # The exchange
//
//	client: n,,n=alice,r=<nonce>                          ParseFirst
//	server: r=<nonce><more>,s=<salt>,i=<iterations>       Challenge
//	client: c=biws,r=<both nonces>,p=<proof>              Exchange.Verify
//	server: v=<signature>
//
// # Deviations, which are Kafka's
//
// Passwords are the bytes of their UTF-8 form: there is no SASLprep. Channel binding is not offered
// (the header is n). The extension tokenauth=true says that the user is a delegation token
// (KIP-48).
//
// # Whoever asks learns nothing
//
// A user that does not exist gets a Decoy: a salt that stays the same and a number of iterations
// that somebody has, and then the answer for a wrong password. Proofs are compared in constant
// time.
//
// The package only computes: nonces are the caller's.
package scram
