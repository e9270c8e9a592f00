// Package sasl computes a Kafka broker's side of SASL authentication: the requests allowed at each
// stage (Session, after Kafka's SaslServerAuthenticator), the messages of PLAIN and OAUTHBEARER
// (ParsePlain, ParseBearer), and the pace of password attempts (Pace).
//
// It does no I/O and does not wait. The caller reads requests, looks up users, waits and responds.
package sasl
