package kfake

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestNilArgumentsAreRefused(t *testing.T) {
	for says, opt := range map[string]Opt{
		"kfake: option 0 is nil": nil,
		"ListenFn(nil)":          ListenFn(nil),
		"neither a listener":     ListenFn(func(string, string) (net.Listener, error) { return nil, nil }),
	} {
		_, err := NewCluster(opt)
		require.ErrorContains(t, err, says)
	}
	var log bytes.Buffer
	c, err := NewCluster(NumBrokers(1), TLS(nil), WithLogger(nil), WithLogger(BasicLogger(&log, LogLevelError)), MaxVersions(nil), BrokerConfigs(nil))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.WaitGroupInfo(t.Context(), "g", nil)
	require.ErrorContains(t, err, "fn is nil")
	var nobody context.Context
	require.Error(t, c.Fault().Wait(nobody, 1))
	BasicLogger(nil, LogLevelInfo).Logf(LogLevelError, "nobody reads this")
	c.Control(nil)
	c.ControlKey(int16(kmsg.Metadata), nil)
	c.SleepControl(nil)
	require.Equal(t, 2, strings.Count(log.String(), "control functions: fn is nil"))
	require.Equal(t, 1, strings.Count(log.String(), "SleepControl: wakeup is nil"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.Ping(t.Context()), "requests are served as if nothing had been said")
}
