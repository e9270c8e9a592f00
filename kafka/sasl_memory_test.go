package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
)

// Checklist row W15: before authentication, the memory of a client is bounded by the needs of its
// mechanism.
func TestMessagesOfAMechanismAreAsLongAsItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		n := newSASLNetwork(t, Config{}, func(s *SASL) {
			s.Plain = func(context.Context, string, string) (bool, error) { asked++; return true, nil }
			s.FailureDelay = time.Second
		})
		for _, tc := range []struct {
			what, mechanism, token string
			refused                bool
		}{
			{"a name and a nonce of 1 KiB each", "SCRAM-SHA-256", "n,,n=" + strings.Repeat("u", 1<<10) + ",r=" + strings.Repeat("r", 1<<10), false},
			{"a long nonce", "SCRAM-SHA-256", "n,,n=alice,r=" + strings.Repeat("r", 4<<10), true},
			{"a nonce as long as a request", "SCRAM-SHA-512", "n,,n=alice,r=" + strings.Repeat("r", 400<<10), true},
			{"a long name", "SCRAM-SHA-512", "n,,n=" + strings.Repeat("u", 4<<10) + ",r=r", true},
			{"a long extension", "SCRAM-SHA-512", "n,,n=alice,r=r,x=" + strings.Repeat("u", 4<<10), true},
			{"a token as a password", "PLAIN", "\x00alice\x00" + strings.Repeat("p", 31<<10), false},
			{"a long password", "PLAIN", "\x00alice\x00" + strings.Repeat("p", 32<<10), true},
			{"a long token", "OAUTHBEARER", "n,,\x01auth=Bearer " + NewUnsecuredJWTForTests(strings.Repeat("c", 200<<10), time.Now().Add(time.Hour)) + "\x01\x01", false},
		} {
			c, start := n.dial(), time.Now()
			require.Zero(t, handshake(c, 1, tc.mechanism).ErrorCode)
			code := Code(authenticate(c, tc.token).ErrorCode)
			if !tc.refused {
				require.Zero(t, code, tc.what)
				c.nc.Close()
				continue
			}
			require.Equal(t, SASLAuthenticationFailed, code, tc.what)
			require.Equal(t, time.Second, time.Since(start), "as after any failure")
			c.closed()
		}
		require.Equal(t, 1, asked)

		c := n.dial()
		handshake(c, 1, "SCRAM-SHA-256")
		require.Zero(t, authenticate(c, "n,,n=alice,r=x").ErrorCode)
		require.Equal(t, SASLAuthenticationFailed, Code(authenticate(c, "c=biws,r="+strings.Repeat("r", 16<<10)+",p=AAAA").ErrorCode))
		c.closed()
	})
}

// Checklist row W15: a client may send any software name in ApiVersions and then stay idle.
func TestWhatAClientSaysOfItsSoftwareIsKeptInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, nil)
		c := n.dial()
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, strings.Repeat("n", 200<<10), strings.Repeat("1", 200<<10)
		require.Zero(t, c.ask(req).(*kmsg.ApiVersionsResponse).ErrorCode, "as at a real Kafka")
		n.s.mu.Lock()
		defer n.s.mu.Unlock()
		require.Len(t, n.s.conns, 1)
		for conn := range n.s.conns {
			require.Equal(t, software{strings.Repeat("n", 256), strings.Repeat("1", 256)}, *conn.software.Load())
		}
	})
}
