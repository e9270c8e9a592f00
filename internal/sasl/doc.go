// Package sasl is what a Kafka broker decides while a client authenticates by SASL: which requests
// it may send when (Session, after Kafka's SaslServerAuthenticator), what the messages of PLAIN and
// OAUTHBEARER say (ParsePlain, ParseBearer), and how often passwords may be tried (Pace).
//
// It only computes. Whoever runs it reads requests, looks up users, waits and answers.
package sasl
