package kafkatest

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A nil argument fails the test in the call itself, not by a later panic of a connection.
func TestNilArgumentsFailTheTest(t *testing.T) {
	for says, call := range map[string]func(*Server){
		"WaitGroup: pred is nil":    func(s *Server) { s.WaitGroup("g", nil) },
		"WaitRequests: pred is nil": func(s *Server) { s.WaitRequests(1, nil) },
		"Observe: f is nil":         func(s *Server) { s.Observe(nil) },
		"DialTLS: cfg is nil":       func(s *Server) { s.DialTLS(s.TLS()) },
	} {
		var f fakeT
		require.Contains(t, f.run(func() { call(New(&f, Config{Pipe: true})) }), "kafkatest: "+says)
	}
	s := New(t, Config{Pipe: true})
	require.ErrorIs(t, s.WaitUntil(t.Context(), nil), errNilWait)
	var nobody context.Context
	require.ErrorIs(t, s.WaitUntil(nobody, func() bool { return true }), errNilWait)
	var f fakeT
	said := f.run(func() { New(&f, Config{Listen: func(int32) (net.Listener, error) { return nil, nil }}) })
	require.Contains(t, said, "Config.Listen returned neither a listener of broker 1 nor an error")
}
