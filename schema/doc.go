// Package schema adds the id of its schema to a key or value, in the wire format of Confluent's
// schema registry. Readers can thus decode records written with any version of a schema. Most Kafka
// clients and tools know this format.
//
// Use it for formats with schemas, such as Protobuf, Avro or JSON Schema. Formats without a schema
// (plain JSON, strings, numbers) do not need it: package record has their Serializers.
//
// The package contains no serialisation format and no registry client. The application provides the
// format as a pair of functions, and the registry as an implementation of Registry.
//
// # Wire format
//
//	byte 0       magic, 0
//	bytes 1-4    id of the schema, big endian
//	indexes      Protobuf only: position of the message in the schema's file; see AppendIndexes
//	the rest     the value in its own format
package schema
