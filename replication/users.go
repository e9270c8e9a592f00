package replication

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/scram"
	"github.com/stratalog/strata/replication/internal/image"
)

// A ScramMechanism is ScramSHA256 or ScramSHA512. The values are Kafka's.
type ScramMechanism = scram.Mechanism

// The mechanisms of SCRAM (RFC 5802, RFC 7677).
const (
	ScramSHA256 = scram.SHA256
	ScramSHA512 = scram.SHA512
)

// A ScramCredential is the stored form of a user's password. It is secret: its holder can try
// passwords, and can impersonate the cluster to the user. Its bytes must not be changed.
type ScramCredential = scram.Credential

// A ScramChange sets or deletes a user's credential for one mechanism.
type ScramChange = image.ScramChange

// A UserError rejects a change of one user, with Kafka's message. errors.Is matches its reason.
type UserError = image.UserError

// Reasons of a UserError.
var (
	ErrUnacceptableCredential = image.ErrUnacceptableCredential // the user's name is empty, or iterations are not 4096 to 16384
	ErrUnsupportedMechanism   = image.ErrUnsupportedMechanism
	ErrDuplicateResource      = image.ErrDuplicateResource // the user occurs twice
	ErrResourceNotFound       = image.ErrResourceNotFound  // the credential to delete does not exist
)

// ScramCredential returns the credential of a user for one mechanism, as of the newest metadata,
// and whether there is one.
func (c *Cluster) ScramCredential(m ScramMechanism, user string) (ScramCredential, bool) {
	return c.users().Credential(image.ScramKey{User: user, Mechanism: m})
}

// ScramShape returns the shape of an existing credential, the part that is visible to every client,
// selected by the random number chance. A server sends it for a user that does not exist, so that
// clients cannot detect that.
func (c *Cluster) ScramShape(chance uint64) scram.Shape { return c.users().Shape(chance) }

func (c *Cluster) users() *image.Users {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.Users()
}

// ScramUsers returns the credentials of all users, by user, in the order of the mechanisms. The
// caller owns the map and its slices, but not the bytes of the credentials.
func (c *Cluster) ScramUsers() map[string][]ScramCredential {
	users, all := c.users(), map[string][]ScramCredential{}
	for _, k := range users.All() {
		cred, _ := users.Credential(k)
		all[k.User] = append(all[k.User], cred)
	}
	return all
}

// AlterScramCredentials changes the credentials of users in one change of the metadata. refused has
// the errors of the rejected changes by user, each a *UserError; a user that occurs twice is
// rejected. When err is nil, the other changes are on stable storage and apply to later
// authentications at every broker. Existing connections continue. Iterations are 4096 to 16384.
// Other errors: ErrMetadataReadOnly, ErrClosed, and the context's error. Kafka:
// ScramControlManager.
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

// SetPassword sets a user's password for the given mechanisms, for both if none is given. It makes
// one change of AlterScramCredentials for each mechanism. The user needs no other entry. It takes
// some milliseconds of computation.
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

// NewScramCredential derives a credential from a password, with 4096 iterations and a random salt.
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
