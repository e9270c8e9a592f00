package javahash

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected orders are those that Java 17 prints for a HashMap of that initial capacity.
func TestOrderIsThatOfJavasTables(t *testing.T) {
	for _, c := range []struct {
		n         int
		put, keys string
	}{
		{1, "m1,", "m1,"},
		{2, "m1,", "m1,"},
		{16, "m1,", ",m1"},
		{1, "m1,m2,the-m1,", ",the-m1,m1,m2"},
		{4, "m1,m2,the-m1,", ",the-m1,m1,m2"},
		{16, "m1,m2,the-m1,", ",m1,m2,the-m1"},
		{13, "alpha,beta,gamma,delta,epsilon,zeta,eta,theta,iota,kappa,lambda,mu,nu", "zeta,iota,nu,delta,mu,theta,epsilon,lambda,eta,alpha,kappa,beta,gamma"},
		{3, "a,q,1,A,Q", "a,q,1,A,Q"},
		{16, "äöü,日本,😀,x", "😀,x,äöü,日本"},
	} {
		require.Equal(t, c.keys, strings.Join(Order(strings.Split(c.put, ","), TableFor(c.n)), ","), "%d: %s", c.n, c.put)
	}
}
