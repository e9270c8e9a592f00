package image

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/scram"
)

// Reasons why a change of users is rejected, for errors.Is.
var (
	ErrUnacceptableCredential = errors.New("unacceptable credential")
	ErrUnsupportedMechanism   = errors.New("unsupported SASL mechanism")
	ErrDuplicateResource      = errors.New("duplicate resource")
	ErrResourceNotFound       = errors.New("resource not found")
)

// A UserError rejects a change of one user, with Kafka's message. errors.Is matches its reason.
type UserError struct {
	Reason error
	Text   string
}

func (e *UserError) Error() string { return e.Text }

// Unwrap returns the reason.
func (e *UserError) Unwrap() error { return e.Reason }

// A ScramKey identifies a credential.
type ScramKey struct {
	User      string
	Mechanism scram.Mechanism
}

// Users are the SCRAM credentials of an image. A published value does not change.
type Users struct {
	credentials map[ScramKey]scram.Credential
	shapes      map[scram.Shape]int // number of credentials of each shape
}

// Credential returns a user's credential, and whether there is one.
func (u *Users) Credential(k ScramKey) (scram.Credential, bool) {
	if u == nil {
		return scram.Credential{}, false
	}
	c, ok := u.credentials[k]
	return c, ok
}

// All returns the keys of all credentials, in the order of users and mechanisms.
func (u *Users) All() []ScramKey {
	if u == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(u.credentials), func(a, b ScramKey) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Mechanism, b.Mechanism))
	})
}

// Shape returns the shape of one of the credentials, each with the same probability, selected by
// the random number chance. It is shown for a user that does not exist.
func (u *Users) Shape(chance uint64) scram.Shape {
	if u == nil || len(u.credentials) == 0 {
		return scram.DefaultShape
	}
	at := int(chance % uint64(len(u.credentials)))
	shapes := slices.SortedFunc(maps.Keys(u.shapes), func(a, b scram.Shape) int {
		return cmp.Or(cmp.Compare(a.Iterations, b.Iterations), cmp.Compare(a.SaltBytes, b.SaltBytes), cmp.Compare(fmt.Sprint(a.Base36), fmt.Sprint(b.Base36)))
	})
	for _, s := range shapes {
		if at -= u.shapes[s]; at < 0 {
			return s
		}
	}
	return scram.DefaultShape
}

// setUser replaces the credential of k; nil removes it. It copies the users once between two
// publishes, since readers use them without a lock.
func (m *Image) setUser(k ScramKey, c *scram.Credential) {
	if !m.ownsUsers {
		owned := &Users{credentials: map[ScramKey]scram.Credential{}, shapes: map[scram.Shape]int{}}
		if m.users != nil {
			owned.credentials, owned.shapes = maps.Clone(m.users.credentials), maps.Clone(m.users.shapes)
		}
		m.users, m.ownsUsers = owned, true
	}
	u := m.users
	if had, ok := u.credentials[k]; ok {
		s := had.Shape()
		if u.shapes[s]--; u.shapes[s] == 0 {
			delete(u.shapes, s)
		}
		delete(u.credentials, k)
	}
	if c != nil {
		u.credentials[k] = *c
		u.shapes[c.Shape()]++
	}
}

// Users returns the SCRAM credentials, or nil if there were never any. A published value does not
// change.
func (m *Image) Users() *Users { return m.users }

func (m *Image) applyUser(rec *metarecord.UserScramCredential) error {
	mechanism := scram.Mechanism(rec.Mechanism)
	switch {
	case !mechanism.Valid():
		return fmt.Errorf("%w: SCRAM mechanism %d", ErrLaterRecord, rec.Mechanism)
	case rec.Name == "" || len(rec.Salt) == 0 || rec.Iterations <= 0 || len(rec.StoredKey) != mechanism.Size() || len(rec.ServerKey) != mechanism.Size():
		return fmt.Errorf("credential of user %q is not one of %v", rec.Name, mechanism)
	}
	m.setUser(ScramKey{rec.Name, mechanism}, &scram.Credential{
		Mechanism: mechanism, Salt: rec.Salt, StoredKey: rec.StoredKey, ServerKey: rec.ServerKey, Iterations: int(rec.Iterations),
	})
	return nil
}

func (m *Image) applyRemoveUser(rec *metarecord.RemoveUserScramCredential) error {
	k := ScramKey{rec.Name, scram.Mechanism(rec.Mechanism)}
	if _, ok := m.users.Credential(k); !ok {
		return fmt.Errorf("removal of the unknown credential of user %q for %v", k.User, k.Mechanism)
	}
	m.setUser(k, nil)
	return nil
}

// userRecords returns the records that create the users in an empty image.
func (m *Image) userRecords() (recs []metarecord.Record) {
	for _, k := range m.users.All() {
		recs = append(recs, userRecord(k.User, m.users.credentials[k]))
	}
	return recs
}

func userRecord(user string, c scram.Credential) metarecord.Record {
	return &metarecord.UserScramCredential{
		Name: user, Mechanism: int8(c.Mechanism), Salt: c.Salt, StoredKey: c.StoredKey, ServerKey: c.ServerKey, Iterations: int32(c.Iterations),
	}
}

// A ScramChange sets or deletes a user's credential for one mechanism.
type ScramChange struct {
	User       string
	Delete     *scram.Mechanism // nil means that Credential is set
	Credential scram.Credential
}

// AlterScram returns the records of changes, and the errors of rejected changes by user. If a user
// occurs twice, neither change is made; the error is that of its first rejected change. Deletions
// come first. Kafka: ScramControlManager.alterCredentials.
func (m *Image) AlterScram(changes []ScramChange) (recs []metarecord.Record, refused map[string]error) {
	refused = map[string]error{}
	fine := map[string]bool{}
	for _, deletions := range []bool{true, false} {
		for _, c := range changes {
			if refused[c.User] != nil || deletions != (c.Delete != nil) {
				continue
			}
			switch err := m.checkScram(c); {
			case fine[c.User]:
				refused[c.User] = &UserError{ErrDuplicateResource, "A user credential cannot be altered twice in the same request"}
			case err != nil:
				refused[c.User] = err
			default:
				fine[c.User] = true
			}
		}
	}
	for _, deletions := range []bool{true, false} {
		for _, c := range changes {
			switch {
			case refused[c.User] != nil || deletions != (c.Delete != nil):
			case deletions:
				recs = append(recs, &metarecord.RemoveUserScramCredential{Name: c.User, Mechanism: int8(*c.Delete)})
			default:
				recs = append(recs, userRecord(c.User, c.Credential))
			}
		}
	}
	return recs, refused
}

// checkScram returns an error if a change is rejected.
func (m *Image) checkScram(c ScramChange) error {
	mechanism := c.Credential.Mechanism
	if c.Delete != nil {
		mechanism = *c.Delete
	}
	switch {
	case c.User == "":
		return &UserError{ErrUnacceptableCredential, "Username must not be empty"}
	case !mechanism.Valid():
		return &UserError{ErrUnsupportedMechanism, "Unknown SCRAM mechanism"}
	case c.Delete != nil:
		if _, ok := m.users.Credential(ScramKey{c.User, mechanism}); !ok {
			return &UserError{ErrResourceNotFound, "Attempt to delete a user credential that does not exist"}
		}
	case c.Credential.Iterations < scram.MinIterations:
		return &UserError{ErrUnacceptableCredential, "Too few iterations"}
	case c.Credential.Iterations > scram.MaxIterations:
		return &UserError{ErrUnacceptableCredential, "Too many iterations"}
	case len(c.Credential.Salt) == 0:
		return &UserError{ErrUnacceptableCredential, "The salt must not be empty"}
	case len(c.Credential.StoredKey) == 0: // any client could authenticate
		return &UserError{ErrUnacceptableCredential, "The salted password must not be empty"}
	}
	return nil
}
