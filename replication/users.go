package replication

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/scram"
	"github.com/stratalog/strata/replication/internal/image"
)

// A ScramMechanism is one of ScramSHA256 and ScramSHA512. The values are Kafka's.
type ScramMechanism = scram.Mechanism

// The mechanisms of SCRAM (RFC 5802, RFC 7677).
const (
	ScramSHA256 = scram.SHA256
	ScramSHA512 = scram.SHA512
)

// A ScramCredential is what the cluster keeps of a user's password. It is secret: who has it can
// try passwords, and pass for the cluster towards the user. Its bytes must not be changed.
type ScramCredential = scram.Credential

// A ScramShape is what everybody can see of a credential.
type ScramShape = scram.Shape

// A ScramChange sets a user's credential for one mechanism, or takes it away.
type ScramChange = image.ScramChange

// A UserError refuses a change of one user, with Kafka's words. errors.Is finds the reason.
type UserError = image.UserError

// Reasons of a UserError.
var (
	ErrUnacceptableCredential = image.ErrUnacceptableCredential // the user has no name, or iterations are not 4096 to 16384
	ErrUnsupportedMechanism   = image.ErrUnsupportedMechanism
	ErrDuplicateResource      = image.ErrDuplicateResource // a user comes twice
	ErrResourceNotFound       = image.ErrResourceNotFound  // what is to be deleted is not there
)

// ScramCredential returns the credential of a user for one mechanism, as of the newest metadata;
// false: there is none.
func (c *Cluster) ScramCredential(m ScramMechanism, user string) (ScramCredential, bool) {
	return c.users().Credential(image.ScramKey{User: user, Mechanism: m})
}

// ScramShape returns the shape of somebody's credential, chosen by a number that stands for chance.
// It is for a user that does not exist, who is to be told from no other.
func (c *Cluster) ScramShape(chance uint64) ScramShape { return c.users().Shape(chance) }

func (c *Cluster) users() *image.Users {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Users()
}

// ScramUsers returns the credentials of all users, by user, in the order of the mechanisms. The
// caller owns the map and its slices, not the bytes of the credentials.
func (c *Cluster) ScramUsers() map[string][]ScramCredential {
	users, all := c.users(), map[string][]ScramCredential{}
	for _, k := range users.All() {
		cred, _ := users.Credential(k)
		all[k.User] = append(all[k.User], cred)
	}
	return all
}

// AlterScramCredentials makes changes of users, in one change of the metadata: refused has those
// that are not made, by user, each a *UserError; a user that comes twice is refused. When err is
// nil the others are on stable storage, and count for who authenticates from then on, at every
// broker; connections that are there stay. Iterations are 4096 to 16384. Other errors:
// ErrMetadataReadOnly, ErrClosed, ctx's. Kafka: ScramControlManager.
func (c *Cluster) AlterScramCredentials(ctx context.Context, changes ...ScramChange) (refused map[string]error, err error) {
	err = c.change(ctx, func(img *image.Image) (recs []metarecord.Record, _ error) {
		recs, refused = img.AlterScram(changes)
		return recs, nil
	})
	if err != nil {
		return nil, fmt.Errorf("alter users: %w", err)
	}
	return refused, nil
}

// SetPassword gives a user a password, for the given mechanisms or for both, as
// AlterScramCredentials. The user needs no other entry anywhere. It takes some milliseconds of
// work.
func (c *Cluster) SetPassword(ctx context.Context, user, password string, mechanisms ...ScramMechanism) error {
	if password == "" {
		return fmt.Errorf("set the password of user %q: %w", user, &UserError{Reason: ErrUnacceptableCredential, Text: "Password must not be empty"})
	}
	if len(mechanisms) == 0 {
		mechanisms = []ScramMechanism{ScramSHA256, ScramSHA512}
	}
	for _, m := range mechanisms { // one change each: a user may come once in one
		cred, err := NewScramCredential(m, password)
		var refused map[string]error
		if err == nil {
			refused, err = c.AlterScramCredentials(ctx, ScramChange{User: user, Credential: cred})
		}
		if err == nil {
			err = refused[user]
		}
		if err != nil {
			return fmt.Errorf("set the password of user %q: %w", user, err)
		}
	}
	return nil
}

// NewScramCredential makes a credential of a password, with 4096 iterations and a salt of chance.
func NewScramCredential(m ScramMechanism, password string) (ScramCredential, error) {
	if !m.Valid() {
		return ScramCredential{}, &UserError{Reason: ErrUnsupportedMechanism, Text: "Unknown SCRAM mechanism"}
	}
	salt := make([]byte, scram.DefaultShape.SaltBytes)
	rand.Read(salt) // never fails
	salted, err := m.Salted(password, salt, scram.MinIterations)
	if err != nil {
		return ScramCredential{}, err
	}
	return m.FromSalted(salted, salt, scram.MinIterations), nil
}
