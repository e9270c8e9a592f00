// Package scram is the server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as in
// Apache Kafka. A client proves that it has a password without sending it, and cannot derive the
// server's credential from the exchange.
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
// (the header is n). The extension tokenauth=true means that the user is a delegation token
// (KIP-48).
//
// # Unknown users
//
// A user that does not exist gets a Decoy: a constant salt and a plausible number of iterations,
// and then the reply for a wrong password. Proofs are compared in constant time.
//
// The package has no source of randomness: the caller passes nonces.
//
// It is Strata's own, because github.com/xdg-go/scram has no server extensions for delegation
// tokens, responds to an unknown user at once, and brings stringprep, which Kafka does not use.
package scram
