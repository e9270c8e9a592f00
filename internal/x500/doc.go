// Package x500 turns the subject of a certificate into the name of a user, as Apache Kafka does.
//
// Name writes a distinguished name in the form of RFC 2253, "CN=alice,OU=dev,O=Example", with the
// escapes of Java's X500Principal.getName, since access control entries compare names byte by byte.
// Rules are Kafka's ssl.principal.mapping.rules, which shorten such names.
//
// The package does no I/O. Names come from any client with a certificate: a malformed subject is an
// error, never a name.
package x500
