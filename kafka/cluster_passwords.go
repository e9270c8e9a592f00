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

// ClusterPasswords returns a check of passwords against the SCRAM credentials of a cluster, so
// that PLAIN and SCRAM share one list of users. A check takes a few milliseconds of work. At most
// as many checks run at a time as there are processors; others wait.
//
// After a successful login, the password of that user is accepted without that work until its
// credentials change. So wrong guesses for other names do not delay it. For that a keyed hash of
// the password is kept in memory.
func ClusterPasswords(cluster *strata.Cluster) PasswordCheck {
	return newClusterPasswords(cluster.Backend()).check
}

// clusterPasswords are the passwords of a cluster's users.
type clusterPasswords struct {
	cluster strata.Backend
	secret  []byte
	slots   chan struct{} // one element for each running check

	mu       sync.Mutex // guards verified; a leaf
	verified map[string]verifiedPassword
}

// maxVerified bounds the users that are accepted without a check.
const maxVerified = 10_000

// A verifiedPassword is a password that matched a credential.
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

// check is the PasswordCheck. For an unknown user it hashes the password as often as for a known
// one.
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

// sum returns a hash of a password, keyed with the secret of this process.
func (p *clusterPasswords) sum(password string) (sum passwordSum) {
	h := hmac.New(sha256.New, p.secret)
	h.Write([]byte("password\x00" + password))
	h.Sum(sum[:0])
	return sum
}

// remembers reports whether the password with this sum has matched the user's present credential.
func (p *clusterPasswords) remembers(user string, cred replication.ScramCredential, sum passwordSum) bool {
	p.mu.Lock()
	v := p.verified[user]
	p.mu.Unlock()
	same := subtle.ConstantTimeCompare(v.sum[:], sum[:]) == 1
	return same && v.credential.Mechanism == cred.Mechanism && subtle.ConstantTimeCompare(v.credential.StoredKey, cred.StoredKey) == 1
}

// remember records a verified password, which remembers accepts from then on. At maxVerified users
// it drops another user, whose next login runs the full check.
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
