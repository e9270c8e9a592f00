package schema

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrUnknown is matched by the error for an id that the registry does not have.
var ErrUnknown = errors.New("schema: unknown id")

// Type is the language of a schema, by its name in Confluent's registry.
type Type string

// The types of Confluent's registry. A Registry may have others.
const (
	Avro     Type = "AVRO"
	Protobuf Type = "PROTOBUF"
	JSON     Type = "JSON"
)

// A Schema describes the format of values.
type Schema struct {
	Type Type
	Text string // in the language of Type
}

// A Registry assigns ids to schemas and returns the schema of an id. An id never changes its
// schema. Calls may be slow and must be safe for concurrent use; Serializer and Decoder cache
// successful results. Memory is an implementation. A client of a registry server needs two of
// Confluent's requests: POST /subjects/SUBJECT/versions and GET /schemas/ids/ID.
type Registry interface {
	// Register returns the id of s, and assigns one if the subject does not have s. It may reject a
	// schema that readers of the subject could not handle.
	Register(subject string, s Schema) (id int32, err error)

	// Schema returns the schema with this id. The error for an unknown id matches ErrUnknown.
	Schema(id int32) (Schema, error)
}

// Memory is a Registry in memory, for tests and for a single process. The zero Memory is empty.
// Safe for concurrent use.
type Memory struct {
	// Compatible, if not nil, is called before a subject gets a new schema. An error rejects the
	// schema. Set it before the first use.
	Compatible func(subject string, newest, next Schema) error

	mu       sync.Mutex // guards the fields below
	schemas  []Schema   // by id - 1
	subjects map[string][]int32
}

// Register implements Registry. The same schema has the same id under every subject.
func (m *Memory) Register(subject string, s Schema) (int32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := int32(slices.Index(m.schemas, s) + 1)
	versions := m.subjects[subject]
	if id > 0 && slices.Contains(versions, id) {
		return id, nil
	}
	if len(versions) > 0 && m.Compatible != nil {
		if err := m.Compatible(subject, m.schemas[versions[len(versions)-1]-1], s); err != nil {
			return 0, fmt.Errorf("schema: subject %s: %w", subject, err)
		}
	}
	if id == 0 {
		m.schemas = append(m.schemas, s)
		id = int32(len(m.schemas))
	}
	if m.subjects == nil {
		m.subjects = map[string][]int32{}
	}
	m.subjects[subject] = append(versions, id)
	return id, nil
}

// Schema implements Registry.
func (m *Memory) Schema(id int32) (Schema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id < 1 || int(id) > len(m.schemas) {
		return Schema{}, fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	return m.schemas[id-1], nil
}

// Versions returns the ids of a subject's schemas, oldest first. The caller owns the result.
func (m *Memory) Versions(subject string) []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.subjects[subject])
}
