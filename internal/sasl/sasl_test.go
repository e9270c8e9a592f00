package sasl

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.Unix(1_000_000, 0)

const fetch = 1

// run feeds a session with a client's requests, and returns the verdicts.
func run(steps ...string) (verdicts string) {
	s, now := &Session{}, at
	var out []string
	for _, step := range steps {
		word, arg, _ := strings.Cut(step, " ")
		admit := func(key int16) {
			out = append(out, map[Verdict]string{Serve: "serve", Refuse: "refuse", HangUp: "hangup", Close: "close", Illegal: "illegal"}[s.Admit(key, now)])
		}
		switch word {
		case "wait":
			d, _ := time.ParseDuration(arg)
			now = now.Add(d)
		case "versions":
			admit(keyApiVersions)
		case "told":
			s.Versions()
		case "shake":
			admit(keySaslHandshake)
		case "begin":
			s.Handshake(arg, 1)
		case "token":
			admit(keySaslAuthenticate)
		case "fetch":
			admit(fetch)
		case "fail":
			s.Fail()
		case "ok", "ok10s":
			most := time.Duration(0)
			if word == "ok10s" {
				most = 10 * time.Second
			}
			d, err := s.Succeed("User:"+arg, now, time.Time{}, most)
			out = append(out, fmt.Sprintf("%v %v", d, err))
		}
	}
	return strings.Join(out, ", ")
}

// The verdicts are those of Kafka's SaslServerAuthenticator and KafkaChannel.
func TestSessionsAdmitWhatKafkaDoes(t *testing.T) {
	for name, tc := range map[string]struct{ steps, want string }{
		"as clients do":                      {"versions;told;shake;begin PLAIN;token;ok alice;fetch;fetch", "serve, serve, serve, 0s <nil>, serve, serve"},
		"without versions":                   {"shake;begin PLAIN;token;ok alice;fetch", "serve, serve, 0s <nil>, serve"},
		"nothing else before":                {"fetch", "hangup"},
		"a token before a handshake":         {"token", "hangup"},
		"nothing else after versions":        {"versions;told;fetch", "serve, hangup"},
		"versions twice":                     {"versions;told;versions", "serve, close"},
		"versions that were refused":         {"versions;versions;told;shake", "serve, serve, serve"},
		"nothing else during the exchange":   {"shake;begin PLAIN;fetch", "serve, refuse"},
		"a handshake during the exchange":    {"shake;begin PLAIN;token;shake", "serve, serve, refuse"},
		"nothing after a failure":            {"shake;fail;versions;shake;token;fetch", "serve, close, close, close, close"},
		"no second time without an end":      {"shake;begin PLAIN;token;ok alice;shake;token;fetch", "serve, serve, 0s <nil>, illegal, illegal, serve"},
		"again":                              {"shake;begin PLAIN;token;ok10s alice;wait 5s;shake;begin PLAIN;token;ok10s alice;wait 9s;fetch", "serve, serve, 10s <nil>, serve, serve, 10s <nil>, serve"},
		"again, when it has expired":         {"shake;begin PLAIN;token;ok10s alice;wait 11s;shake;begin PLAIN;token;ok10s alice;fetch", "serve, serve, 10s <nil>, serve, serve, 10s <nil>, serve"},
		"expired":                            {"shake;begin PLAIN;token;ok10s alice;wait 10s;fetch;wait 1ms;fetch", "serve, serve, 10s <nil>, serve, close"},
		"expired, even for versions":         {"shake;begin PLAIN;token;ok10s alice;wait 11s;versions", "serve, serve, 10s <nil>, close"},
		"again too soon":                     {"shake;begin PLAIN;token;ok10s alice;shake;begin PLAIN;token;ok10s alice;shake;wait 1s;shake", "serve, serve, 10s <nil>, serve, serve, 10s <nil>, illegal, serve"},
		"again as somebody else":             {"shake;begin PLAIN;token;ok10s alice;shake;begin PLAIN;token;ok10s bob", "serve, serve, 10s <nil>, serve, serve, 0s Cannot change principals during re-authentication from User.alice: User.bob"},
		"again by another mechanism":         {"shake;begin PLAIN;token;ok10s alice;shake;begin OTHER;token", "serve, serve, 10s <nil>, serve, hangup"},
		"other requests between":             {"shake;begin PLAIN;token;ok10s alice;shake;begin PLAIN;fetch", "serve, serve, 10s <nil>, serve, refuse"},
		"other requests before its exchange": {"shake;begin PLAIN;token;ok10s alice;shake;fetch", "serve, serve, 10s <nil>, serve, hangup"},
	} {
		require.Equal(t, tc.want, run(strings.Split(tc.steps, ";")...), name)
	}
}

func TestSessionsLastAsLongAsWhatEndsFirst(t *testing.T) {
	for _, tc := range []struct {
		expires    time.Time
		most, want time.Duration
	}{
		{time.Time{}, 0, 0}, {time.Time{}, time.Hour, time.Hour}, {at.Add(time.Minute), 0, time.Minute}, {at.Add(time.Minute), time.Hour, time.Minute},
		{at.Add(time.Minute), time.Second, time.Second}, {at.Add(-time.Minute), 0, 0},
	} {
		s := &Session{}
		got, err := s.Succeed("User:a", at, tc.expires, tc.most)
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
		if !tc.expires.IsZero() || tc.most > 0 {
			require.Equal(t, Serve, s.Admit(fetch, at.Add(tc.want)))
			require.Equal(t, Close, s.Admit(fetch, at.Add(tc.want+1)))
		}
	}
}

func TestPlainMessages(t *testing.T) {
	p, err := ParsePlain([]byte("a\x00b\x00c"))
	require.NoError(t, err)
	require.Equal(t, Plain{"a", "b", "c"}, p)
	p, err = ParsePlain([]byte("\x00b\x00c"))
	require.NoError(t, err)
	require.Equal(t, Plain{"", "b", "c"}, p)
	for bad, want := range map[string]string{
		"": "Invalid SASL/PLAIN response: expected 3 tokens, got 1", "a\x00b": "Invalid SASL/PLAIN response: expected 3 tokens, got 2",
		"a\x00b\x00c\x00d": "Invalid SASL/PLAIN response: expected 3 tokens, got 4", "a\x00b\x00c\x00d\x00e\x00f": "Invalid SASL/PLAIN response: expected 3 tokens, got 4",
		"a\x00\x00c": "Authentication failed: username not specified", "a\x00b\x00": "Authentication failed: password not specified",
	} {
		_, err := ParsePlain([]byte(bad))
		require.Equal(t, Told(want), err, "%q", bad)
	}
}

func TestBearerMessages(t *testing.T) {
	b, err := ParseBearer([]byte("n,,\x01auth=Bearer a.b-_~+/c==\x01\x01"))
	require.NoError(t, err)
	require.Equal(t, Bearer{Token: "a.b-_~+/c=="}, b)
	b, err = ParseBearer([]byte("n,a=us=2Cer,\x01auth=bEARER   t\x01key=some value\x01\x01"))
	require.NoError(t, err)
	require.Equal(t, Bearer{AuthzID: "us,er", Token: "t", Extensions: map[string]string{"key": "some value"}}, b)
	for _, bad := range []string{
		"", "\x01", "n,,", "n,,\x01\x01", "n,,\x01auth=Bearer t\x01", "n,,\x01auth=Bearer \x01\x01", "n,,\x01auth=Basic t\x01\x01", "n,,\x01auth=Bearer t!\x01\x01", "n,,\x01auth=Bearer =\x01\x01",
		"y,,\x01auth=Bearer t\x01\x01", "n,a=,\x01auth=Bearer t\x01\x01", "n,x,\x01auth=Bearer t\x01\x01", "n,,\x01k3y=v\x01auth=Bearer t\x01\x01", "n,,\x01key=\x01auth=Bearer t\x01\x01", "n,,\x01auth=Bearer a=b\x01\x01",
		"n,\x01auth=Bearer t\x01\x01", "n,,\x01auth=Bearer \xff\x01\x01",
	} {
		_, err := ParseBearer([]byte(bad))
		require.ErrorIs(t, err, ErrInvalid, "%q", bad)
	}
}

func TestWhoFailsOftenIsSlowedDown(t *testing.T) {
	var p Pace
	now := at
	waits := func(want time.Duration, name, why string) {
		t.Helper()
		got, ok := p.Begin(name, now, time.Second)
		require.True(t, ok)
		require.Equal(t, want, got, why)
	}
	for range paceBurst {
		waits(0, "h/alice", "the first ones")
		p.End("h/alice", now, true)
	}
	for i := range 5 {
		waits(time.Duration(i)*time.Second, "h/alice", "one after the other")
	}
	waits(0, "h/bob", "others")
	waits(0, "g/alice", "from elsewhere")
	p.End("h/alice", now, false)
	waits(5*time.Second, "h/alice", "who knows the password of a user does not free its place for others")
	now = now.Add(paceRemains + time.Second)
	waits(0, "h/alice", "long ago")
	waits(0, "h/alice", "long ago")
}

// Many wrong guesses leave a queue no longer than the limit of one attempt's wait.
func TestRefusedAttemptsHoldUpNobody(t *testing.T) {
	var p Pace
	for range paceBurst {
		p.End("h/alice", at, true)
	}
	let := 0
	for range 100_000 {
		if _, ok := p.Begin("h/alice", at, time.Second); ok {
			let++
		}
	}
	require.Equal(t, int(paceWait/time.Second)+1, let)
	wait, ok := p.Begin("h/alice", at.Add(time.Second), time.Second)
	require.True(t, ok)
	require.Equal(t, paceWait, wait)
}

func TestPaceRemembersABoundedNumberOfNames(t *testing.T) {
	var p Pace
	for i := range 3*paceNames + 5 {
		p.End(fmt.Sprint(i), at, true)
	}
	require.Len(t, p.names, paceNames)
	require.Len(t, p.order, paceNames)
	require.NotNil(t, p.names[sha256.Sum256(fmt.Append(nil, 3*paceNames+4))], "the newest")
	require.Nil(t, p.names[sha256.Sum256([]byte("0"))])
}

func TestPaceKeepsNoNames(t *testing.T) {
	var p Pace
	long := make([]byte, 1<<20)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 100 {
		p.End(fmt.Sprintf("%d%s", i, long), at, true)
	}
	require.Less(t, heap()-before, int64(4<<20))
	runtime.KeepAlive(&p)
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("n,,\x01auth=Bearer a.b-_~+/c==\x01\x01"))
	f.Add([]byte("a\x00b\x00c"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if p, err := ParsePlain(msg); err == nil {
			require.Equal(t, string(msg), p.AuthzID+"\x00"+p.User+"\x00"+p.Password)
		}
		if b, err := ParseBearer(msg); err == nil {
			require.Contains(t, string(msg), b.Token)
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
	})
}
