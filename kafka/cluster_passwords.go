package kafka

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"runtime"
	"sync"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/scram"
	"github.com/stratalog/strata/replication"
)

// ClusterPasswords checks passwords against the SCRAM credentials of a cluster: one list of users
// serves PLAIN and SCRAM. A check is a few milliseconds of work; as many as there are processors
// are done at a time, and the others wait. A user who has logged in is let in again at once,
// without that work, until its credentials change: guesses under other names do not hold it up. For
// that a keyed hash of its password is kept in memory.
func ClusterPasswords(cluster *strata.Cluster) PasswordCheck {
	return newClusterPasswords(cluster.Backend()).check
}

// clusterPasswords are the passwords of a cluster's users.
type clusterPasswords struct {
	cluster strata.Backend
	secret  []byte
	slots   chan struct{} // of checks under way

	mu       sync.Mutex // guards verified; a leaf
	verified map[string]verifiedPassword
}

// maxVerified is how many users are let in without a check at most.
const maxVerified = 10_000

// A verifiedPassword is one that was found to be that of a credential.
type verifiedPassword struct {
	credential replication.ScramCredential
	sum        passwordSum
}

type passwordSum [sha256.Size]byte

func newClusterPasswords(cluster strata.Backend) *clusterPasswords {
	p := &clusterPasswords{cluster: cluster, secret: make([]byte, 32), slots: make(chan struct{}, runtime.GOMAXPROCS(0)), verified: map[string]verifiedPassword{}}
	rand.Read(p.secret) // never fails
	return p
}

// check is the PasswordCheck. Of a user that is not known a password is hashed as often as of one
// that is.
func (p *clusterPasswords) check(ctx context.Context, user, password string) (bool, error) {
	cred, known := p.cluster.ScramCredential(scram.SHA512, user)
	if !known {
		cred, known = p.cluster.ScramCredential(scram.SHA256, user)
	}
	sum := p.sum(password)
	if p.remembers(user, cred, sum) && known {
		return true, nil
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if !known {
		cred = scram.SHA512.Decoy(p.secret, user, scram.DefaultShape)
	}
	if !cred.Matches(password) || !known {
		return false, nil
	}
	p.remember(user, verifiedPassword{cred, sum})
	return true, nil
}

// sum hashes a password in a way that nobody repeats elsewhere.
func (p *clusterPasswords) sum(password string) (sum passwordSum) {
	h := hmac.New(sha256.New, p.secret)
	h.Write([]byte("password\x00" + password))
	h.Sum(sum[:0])
	return sum
}

// remembers reports whether the password with a sum was found to be that of the user's credential.
func (p *clusterPasswords) remembers(user string, cred replication.ScramCredential, sum passwordSum) bool {
	p.mu.Lock()
	v := p.verified[user]
	p.mu.Unlock()
	same := subtle.ConstantTimeCompare(v.sum[:], sum[:]) == 1
	return same && v.credential.Mechanism == cred.Mechanism && subtle.ConstantTimeCompare(v.credential.StoredKey, cred.StoredKey) == 1
}

// remember has a user let in by a password without a check. If they are too many any other one is
// checked again.
func (p *clusterPasswords) remember(user string, v verifiedPassword) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.verified[user]; !known && len(p.verified) >= maxVerified {
		for other := range p.verified {
			delete(p.verified, other)
			break
		}
	}
	p.verified[user] = v
}
