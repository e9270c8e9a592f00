package scram

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func credential(t testing.TB, m Mechanism, password string, salt []byte, iterations int) Credential {
	t.Helper()
	salted, err := m.Salted(password, salt, iterations)
	require.NoError(t, err)
	return m.FromSalted(salted, salt, iterations)
}

// The exchange is the example of RFC 7677, section 3.
func TestExchangesAreThoseOfTheStandard(t *testing.T) {
	v := struct {
		m                                   Mechanism
		salt, client, server, proof, answer string
	}{SHA256, "W22ZaJ0SNY7soEsUEjb6gQ==", "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="}
	salt, err := base64.StdEncoding.DecodeString(v.salt)
	require.NoError(t, err)
	first, err := ParseFirst([]byte("n,,n=user,r=" + v.client))
	require.NoError(t, err)
	require.Equal(t, "user", first.User)
	e, challenge := first.Challenge(credential(t, v.m, "pencil", salt, 4096), v.server)
	require.Equal(t, "r="+v.client+v.server+",s="+v.salt+",i=4096", string(challenge))
	answer, err := e.Verify([]byte("c=biws,r=" + v.client + v.server + ",p=" + v.proof))
	require.NoError(t, err)
	require.Equal(t, "v="+v.answer, string(answer))
}

// clientProof returns the client's last message, by the formulas of RFC 5802 section 3.
func clientProof(t testing.TB, m Mechanism, password string, c Credential, bare, challenge, gs2, nonce string) string {
	t.Helper()
	salted, err := m.Salted(password, c.Salt, c.Iterations)
	require.NoError(t, err)
	key := m.mac(salted, []byte("Client Key"))
	without := "c=" + base64.StdEncoding.EncodeToString([]byte(gs2)) + ",r=" + nonce
	signature := m.mac(m.digest(key), []byte(bare+","+challenge+","+without))
	for i := range key {
		key[i] ^= signature[i]
	}
	return without + ",p=" + base64.StdEncoding.EncodeToString(key)
}

func TestOnlyTheRightPasswordOfThisExchangeIsAccepted(t *testing.T) {
	for _, m := range []Mechanism{SHA256, SHA512} {
		c := credential(t, m, "pencil", []byte("salty"), MinIterations)
		first, err := ParseFirst([]byte("n,a=us=2Cer,n=us=2Cer,r=abc"))
		require.NoError(t, err)
		require.Equal(t, First{AuthzID: "us,er", User: "us,er", Nonce: "abc", gs2: "n,a=us=2Cer,", bare: "n=us=2Cer,r=abc"}, first)
		e, challenge := first.Challenge(c, "DEF")
		good := clientProof(t, m, "pencil", c, first.bare, string(challenge), first.gs2, "abcDEF")
		answer, err := e.Verify([]byte(good))
		require.NoError(t, err)
		require.Len(t, answer, 2+base64.StdEncoding.EncodedLen(m.Size()))

		_, err = e.Verify([]byte(clientProof(t, m, "pencils", c, first.bare, string(challenge), first.gs2, "abcDEF")))
		require.ErrorIs(t, err, ErrProof)
		again, _ := first.Challenge(c, "GHI")
		_, err = again.Verify([]byte(good))
		require.ErrorIs(t, err, ErrProof, "replayed")
		_, err = again.Verify([]byte(strings.Replace(good, "abcDEF", "abcGHI", 1)))
		require.ErrorIs(t, err, ErrProof, "replayed with the new nonce")
		_, err = e.Verify([]byte(clientProof(t, m, "pencil", c, first.bare, string(challenge), "n,,", "abcDEF")))
		require.ErrorIs(t, err, ErrInvalid, "another header")
		for n := range good {
			_, err = e.Verify([]byte(good[:n]))
			require.Error(t, err, "cut to %d bytes", n)
		}
		for _, bad := range []string{"", "p=", "c=biws,p=AAAA", good + "=", good + ",x=y", strings.Replace(good, "p=", "p=AAAA", 1)} {
			_, err = e.Verify([]byte(bad))
			require.ErrorIs(t, err, ErrInvalid, bad)
		}
		require.True(t, c.Matches("pencil"))
		require.False(t, c.Matches("Pencil"))
		require.False(t, c.Matches(""))
	}
}

// librdkafka before 2.6.1 sends the nonce with its own half repeated in front, and has the right
// password. Only clients with the right password receive that reason.
func TestRepeatedNonceOfOldClientsIsRecognised(t *testing.T) {
	for _, m := range []Mechanism{SHA256, SHA512} {
		c := credential(t, m, "pencil", []byte("salty"), MinIterations)
		first, err := ParseFirst([]byte("n,,n=user,r=abc"))
		require.NoError(t, err)
		e, challenge := first.Challenge(c, "DEF")
		verify := func(password, nonce string) error {
			answer, err := e.Verify([]byte(clientProof(t, m, password, c, first.bare, string(challenge), first.gs2, nonce)))
			require.Empty(t, answer)
			return err
		}
		require.ErrorIs(t, verify("pencil", "abcabcDEF"), ErrRepeatedNonce)
		require.ErrorContains(t, verify("pencil", "abcabcDEF"), "librdkafka before 2.6.1")
		require.ErrorIs(t, verify("pencils", "abcabcDEF"), ErrProof)
		for _, other := range []string{"abcabcGHI", "abc", "DEF", "abcDEFabcDEF", "xyzabcDEF"} {
			require.ErrorIs(t, verify("pencil", other), ErrProof, other)
		}
	}
}

func TestFirstMessages(t *testing.T) {
	first, err := ParseFirst([]byte("n,,n=id,r=abc,tokenauth=true"))
	require.NoError(t, err)
	require.True(t, first.Token)
	first, err = ParseFirst([]byte("n,,n=id,r=abc,x=y,tokenauth=false"))
	require.NoError(t, err)
	require.False(t, first.Token)
	for _, bad := range []string{
		"", "n", "n,,", "n,,n=a", "n,,n=,r=a", "n,,n=a,r=", "y,,n=a,r=b", "p=tls-unique,,n=a,r=b", "n,x,n=a,r=b", "n,a=,n=a,r=b", "n,,m=x,n=a,r=b", "n,,n=a=b,r=c",
		"n,,n=a=2c,r=c", "n,,n=a,r=\x7f", "n,,n=a,r=b c", "n,,n=\xff,r=b", "n,,n=a\x00,r=b", "n,,n=a,r=b,", "n,,n=a,r=b,x", "n,,n=a,r=b,=y", "n,,r=b,n=a",
	} {
		_, err := ParseFirst([]byte(bad))
		require.ErrorIs(t, err, ErrInvalid, bad)
	}
	_, err = ParseFirst([]byte("n,,n=a,r=" + strings.Repeat("r", MaxFirstBytes-9)))
	require.NoError(t, err)
	_, err = ParseFirst([]byte("n,,n=a,r=" + strings.Repeat("r", MaxFirstBytes-8)))
	require.ErrorIs(t, err, ErrInvalid)
}

func TestDecoysLookLikeOthersAndStayTheSame(t *testing.T) {
	secret := []byte("secret")
	for _, s := range []Shape{DefaultShape, {SaltBytes: 26, Base36: true, Iterations: 8192}, {SaltBytes: 100, Iterations: 4096}, {SaltBytes: 1, Iterations: 5000}} {
		c := SHA256.Decoy(secret, "nobody", s)
		require.Equal(t, c, SHA256.Decoy(secret, "nobody", s))
		require.NotEqual(t, c.StoredKey, SHA256.Decoy(secret, "somebody", s).StoredKey)
		require.NotEqual(t, c.StoredKey, SHA256.Decoy([]byte("other"), "nobody", s).StoredKey)
		require.Equal(t, s.SaltBytes, c.Shape().SaltBytes)
		require.Equal(t, s.Iterations, c.Shape().Iterations)
		if s.Base36 || s.SaltBytes > 20 {
			require.Equal(t, s.Base36, c.Shape().Base36)
		}
	}
	require.Len(t, SHA256.Decoy(secret, "x", Shape{SaltBytes: 1 << 30, Iterations: 1}).Salt, DefaultShape.SaltBytes)
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte("n,,n=user,r=rOprNGfwEbeRWgbNEkqO"), []byte("c=biws,r=abc,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="))
	f.Add([]byte("n,a=us=2Cer,n=us=2Cer,r=abc,tokenauth=true"), []byte("c=biws,r=abc,x=y,p="))
	c := SHA256.Decoy([]byte("s"), "u", DefaultShape)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		first, err := ParseFirst(one)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return
		}
		require.NotEmpty(t, first.User)
		require.Equal(t, string(one), first.gs2+first.bare)
		e, challenge := first.Challenge(c, "server")
		require.True(t, strings.HasPrefix(string(challenge), fmt.Sprintf("r=%sserver,", first.Nonce)))
		_, err = e.Verify(two)
		require.Error(t, err, "nobody knows a password for it")
	})
}
