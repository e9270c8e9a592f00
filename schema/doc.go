// Package schema lets keys and values travel with the id of their schema, in the wire format of
// Confluent's schema registry, which most clients and tools of Kafka know: readers find out how a
// record was written, however old it is. It knows no serialisation format and no registry: the
// format is a pair of functions of the application (JSON, Protobuf, Avro, its own), the registry is
// whatever implements Registry.
//
// # Wire format
//
//	byte 0       magic, 0
//	bytes 1-4    id of the schema, big endian
//	indexes      Protobuf only: which message of the schema's file; see AppendIndexes
//	the rest     the value as its format has it
//
// Formats without a schema (plain JSON, strings, numbers) need none of this: package record has
// their Serializers.
package schema
