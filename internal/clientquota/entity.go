package clientquota

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// A Name is one part of an Entity. The zero Name is an absent part.
type Name struct {
	Name    string // empty if Default is set
	Default bool   // all names without a quota of their own
}

// Named returns the Name of one user, client id or address. name must not be empty.
func Named(name string) Name { return Name{Name: name} }

// Default is the Name for all without a quota of their own.
var Default = Name{Default: true}

// Given reports whether the entity has that part.
func (n Name) Given() bool { return n != Name{} }

// String returns the name, and null for the default, as Kafka does.
func (n Name) String() string {
	if n.Default {
		return "null"
	}
	return n.Name
}

// An Entity is the owner of a quota: a user, a client id, a user's connections with a client id, or
// an address. Kafka: ClientQuotaEntity.
type Entity struct{ User, ClientID, IP Name }

// A Part is the type of one of an entity's names.
type Part string

// The parts of entities, by Kafka's names.
const (
	ClientID Part = "client-id"
	User     Part = "user"
	IP       Part = "ip"
)

// Parts are all parts, in the order of responses.
var Parts = []Part{ClientID, User, IP}

// Part returns a pointer to one part of the entity, nil for an unknown type.
func (e *Entity) Part(p Part) *Name {
	switch p {
	case ClientID:
		return &e.ClientID
	case User:
		return &e.User
	case IP:
		return &e.IP
	}
	return nil
}

// String returns the entity in the form of Kafka's errors: {client-id=app, user=alice}.
func (e Entity) String() string {
	var parts []string
	for _, p := range Parts {
		if n := *e.Part(p); n.Given() {
			parts = append(parts, string(p)+"="+n.String())
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Compare orders entities by their parts.
func (e Entity) Compare(f Entity) int {
	return cmp.Or(compare(e.User, f.User), compare(e.ClientID, f.ClientID), compare(e.IP, f.IP))
}

func compare(a, b Name) int {
	if a.Default != b.Default {
		if a.Default {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// TextBytes returns the total length of the names.
func (e Entity) TextBytes() int { return len(e.User.Name) + len(e.ClientID.Name) + len(e.IP.Name) }

// A Key is the name of a quota. Kafka: QuotaConfig.
type Key string

// The keys, by Kafka's names. The first four are of users and client ids, the last is of addresses.
const (
	ProducerByteRate       Key = "producer_byte_rate"       // bytes a second of produce requests
	ConsumerByteRate       Key = "consumer_byte_rate"       // bytes a second of fetch responses
	RequestPercentage      Key = "request_percentage"       // of the time of one thread
	ControllerMutationRate Key = "controller_mutation_rate" // partitions created and deleted a second
	ConnectionCreationRate Key = "connection_creation_rate" // connections a second
)

// Check returns the reason, in Kafka's words, for which an entity cannot have quotas; "" if it can.
// A host must be an address: Kafka resolves names.
func (e Entity) Check() string {
	switch {
	case e == Entity{}:
		return "Invalid empty client quota entity"
	case e.IP.Given() && (e.User.Given() || e.ClientID.Given()):
		return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
	case e.IP.Name != "":
		if _, err := netip.ParseAddr(e.IP.Name); err != nil {
			return e.IP.Name + " is not a valid IP or resolvable host."
		}
	}
	return ""
}

// CheckValue returns the reason, in Kafka's words, to reject a quota of an entity; "" if it is
// valid. NaN is rejected; Kafka stores it.
func (e Entity) CheckValue(k Key, v float64) string {
	largest, kind := math.Inf(1), ""
	switch {
	case e.IP.Given() && k == ConnectionCreationRate:
		largest, kind = math.MaxInt32, "an INT."
	case e.IP.Given():
		return "Invalid configuration key " + string(k)
	case k == ProducerByteRate, k == ConsumerByteRate:
		largest, kind = math.MaxInt64, "a LONG."
	case k != RequestPercentage && k != ControllerMutationRate:
		return "Invalid configuration key " + string(k)
	}
	const exact = 1e-6 // tolerance for whole numbers
	switch {
	case !(v > 0):
		return fmt.Sprintf("Quota %s must be greater than 0", k)
	case v > largest:
		return fmt.Sprintf("Proposed value for %s is too large for %s", k, kind)
	case kind != "" && math.Mod(v, 1) > exact:
		return fmt.Sprintf("%s cannot be a fractional value.", k)
	}
	return ""
}
